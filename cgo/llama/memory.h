// Memory that llama.cpp plans for a context; see memory.go.
#ifndef LES_LLAMA_MEMORY_H
#define LES_LLAMA_MEMORY_H

#include <stdint.h>

struct llama_context;

struct les_llama_memory {
    uint64_t model_bytes;
    uint64_t context_bytes;
    uint64_t compute_bytes;
};

#ifdef __cplusplus
extern "C"
#endif
struct les_llama_memory les_llama_memory_measure(const struct llama_context * lctx);

#endif
