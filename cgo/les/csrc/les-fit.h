// A quick look at a model and at the memory there is, before anything is loaded: does it have routed experts, and does it fit?
// The exact plan is made later, by whoever streams.

#pragma once

#include "les.h"

#ifdef __cplusplus
extern "C" {
#endif

// The part of the free memory that is planned for; the rest is left to page tables and to other programs. Android ends
// processes before the free memory is used up; iOS tells what is left until the limit of this process, of which an app needs
// a part for its pictures and buffers. Neither was measured on a phone.
#if defined(__ANDROID__)
#    define LES_BUDGET_SHARE 0.6
#elif defined(__APPLE__) && defined(__ENVIRONMENT_IPHONE_OS_VERSION_MIN_REQUIRED__)
#    define LES_BUDGET_SHARE 0.8
#else
#    define LES_BUDGET_SHARE 0.9
#endif

struct les_look {
    bool     read;    // the first file has metadata that could be read
    int32_t  experts; // of a layer, as the metadata say
    int32_t  blocks;
    int32_t  trained; // tokens of the longest context the model was trained for
    uint64_t n_bytes; // of all files
};

// path is that of the only file or of the first part.
LES_API struct les_look les_look_at(const char * path);

// The same, once without reading again what les_look_at on this thread was told of that file just before.
LES_API struct les_look les_look_again(const char * path);

// True if the model is larger than the memory there is, which both are told of.
bool les_too_large(const struct les_look * look, uint64_t * available);

// The first name of a tensor of experts that the pattern of a buffer-type override matches, NULL if there is none. The text
// lives until the next call on this thread.
LES_API const char * les_override_hits(const char * pattern, int32_t n_blocks);

// Bytes that can be used without swapping, within the limits of the control groups of this process; 0 where the system does
// not tell. The second is the least limit of the groups alone, 0 where there is none.
LES_API uint64_t les_memory_available(void);
LES_API uint64_t les_memory_group_limit(void);

// The least limit of a group and of those above it, below the folder root; 0 where there is none.
LES_API uint64_t les_memory_least_limit(const char * root, const char * group, const char * file);

struct ggml_backend_buffer_type;
struct ggml_tensor;

// True if buffers of this type take memory of the processor: what a graphics processor has of its own is not part of a budget.
LES_API bool les_memory_is_host(struct ggml_backend_buffer_type * buft);

// Counts a weight that a load on this thread reads or maps into memory of the processor. The other one returns what was
// counted, and begins anew.
LES_API void     les_memory_note_weight(const struct ggml_tensor * tensor);
LES_API uint64_t les_memory_take_weights(void);

#ifdef __cplusplus
}
#endif
