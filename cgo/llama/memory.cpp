// The only C++ here: upstream returns its own figures in a std::map.
#include "memory.h"
#include "llama-ext.h"

les_llama_memory les_llama_memory_measure(const llama_context * lctx) {
    les_llama_memory sum = {0, 0, 0};
    for (const auto & entry : llama_get_memory_breakdown(lctx)) {
        sum.model_bytes   += entry.second.model;
        sum.context_bytes += entry.second.context;
        sum.compute_bytes += entry.second.compute;
    }
    return sum;
}
