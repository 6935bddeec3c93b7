// Drawing a token from C++ that may throw.

#pragma once

#include "llama.h"

#ifdef __cplusplus
extern "C" {
#endif

// As llama_sampler_sample, but -1 where no token fits a grammar.
llama_token les_sample(struct llama_sampler * chain, struct llama_context * lctx, int32_t i);

#ifdef __cplusplus
}
#endif
