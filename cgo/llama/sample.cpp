#include "sample.h"

#include <exception>

llama_token les_sample(struct llama_sampler * chain, struct llama_context * lctx, int32_t i) {
    try {
        return llama_sampler_sample(chain, lctx, i);
    } catch (const std::exception &) {
        return LLAMA_TOKEN_NULL; // a grammar throws when it is given what it does not allow
    }
}
