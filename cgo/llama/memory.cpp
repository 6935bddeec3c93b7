// The only C++ here: upstream returns its own figures in a std::map.
#include "memory.h"
#include "les-fit.h"
#include "llama-ext.h"

#include <cstring>

les_llama_memory les_llama_memory_measure(const llama_context * lctx) {
    les_llama_memory sum = {0, 0, llama_les_graph_bytes(lctx)};
    for (const auto & entry : llama_get_memory_breakdown(lctx)) {
        if (strcmp(ggml_backend_buft_name(entry.first), "LES") == 0 || !les_memory_is_host(entry.first)) {
            continue; // what stays in the files: addresses without memory; what a device has of its own
        }
        sum.model_bytes   += entry.second.model;
        sum.context_bytes += entry.second.context;
        sum.compute_bytes += entry.second.compute;
    }
    return sum;
}
