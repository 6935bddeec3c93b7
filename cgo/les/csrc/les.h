// LES, lookahead expert scheduling: the one ABI between llama.cpp, the C side of LES and the scheduler.
//
// A les_model owns the geometry of a model's streamed experts, the arena of expert slots and the table of
// words that says which expert is where. Life of one:
//
//   les_model_new -> les_model_set_pending -> llama_model_load_* (the loader hook fills in the geometry)
//   -> les_model_seal -> les_model_open (arena, table, callbacks) -> decode ... -> les_model_close -> les_model_unref
//
// The model's weights buffer holds a reference of its own, so that a les_model outlives every graph that uses it.

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(LES_SHARED)
#    define LES_API __declspec(dllexport)
#elif defined(__GNUC__)
#    define LES_API __attribute__((visibility("default")))
#else
#    define LES_API
#endif

#define LES_ALIGN      4096 // placement of bytes in a slot follows their file offset modulo this
#define LES_MAX_SPANS  3    // extents of one expert: gate, up, down in an ordinary GGUF; one when contiguous
#define LES_MAX_NAME   128

// Word of one expert in the shared table: 0 when it is not in memory, else (slot + 1) << 8 | flags.
// The scheduler stores it with release order after the bytes are in place; compute threads load it with acquire order.
#define LES_WORD_READY(span) (1u << (span)) // the bytes of this span are in place
#define LES_WORD_FAILED      (1u << 7)      // the read failed for good; the step must fail
#define LES_WORD_SLOT_SHIFT  8

struct les_model;

// Calls into the scheduler. They are made from compute thread 0 only, never block, and return a negative number
// where the scheduler is broken (the step then fails).
struct les_callbacks {
    void * user;

    // The distinct experts (ascending) that a node of this layer needs, with the mask of spans it will read.
    // Each is pinned until it is released. Returns how many have no slot yet.
    int32_t (*routed)(void * user, int32_t layer, const int32_t * ids, int32_t n, uint32_t spans, int32_t n_tokens);

    // Guesses for a layer that has not routed yet, best first.
    int32_t (*predicted)(void * user, int32_t layer, const int32_t * ids, int32_t n);

    // These experts have been applied to all their tokens.
    int32_t (*released)(void * user, int32_t layer, const int32_t * ids, int32_t n);
};

// One extent of the experts of a layer. Expert e lies at file offset off + e*stride, n_bytes long, and in its slot at
// slot_off + (file offset % LES_ALIGN).
struct les_span {
    int32_t  file; // index of the file (split models have several)
    uint64_t off;
    uint64_t stride;
    uint64_t n_bytes;
    uint64_t slot_off;
};

// What a span takes in a slot: its bytes, the padding before them, and up to the next boundary.
static inline uint64_t les_span_slot_bytes(uint64_t off, uint64_t stride, uint64_t n_bytes) {
    const uint64_t lead = stride % LES_ALIGN == 0 ? off % LES_ALIGN : LES_ALIGN - 1;
    return (lead + n_bytes + LES_ALIGN - 1) / LES_ALIGN * LES_ALIGN;
}

struct les_layer_info {
    int32_t         block; // number of the block in the model
    int32_t         n_expert;
    int32_t         n_spans;
    struct les_span spans[LES_MAX_SPANS];
};

struct les_counters {
    uint64_t stall_ns;   // sum over compute threads of the time spent waiting for an expert's bytes
    uint64_t predict_ns; // thread 0's time in the lookahead
    uint64_t node_ns;    // thread 0's time in MoE nodes, stalls included
    uint64_t n_nodes;    // MoE nodes computed
    int32_t  n_threads;  // compute threads of the last node
};

// life

LES_API struct les_model * les_model_new(void);
LES_API void               les_model_ref  (struct les_model * model);
LES_API void               les_model_unref(struct les_model * model);

// The next llama model that has expert tensors takes them into this one. NULL withdraws an unused offer. Returns 0, or -1
// with an error set while another model is offered or its load is not sealed: a load would take the wrong one.
LES_API int32_t les_model_set_pending(struct les_model * model);

// Lays out slots once the loader is done. Returns the number of streamed layers, or -1 with an error set.
LES_API int32_t les_model_seal(struct les_model * model);

// Says where the file with this number is, which is opened if tensors in it are read row by row. Comes after the seal, for
// each file, before the first graph. Returns 0, or -1 with an error set.
LES_API int32_t les_model_set_file(struct les_model * model, int32_t file, const char * path);

// Reserves addresses for an arena of n_slots_max slots, memory for n_slots of them, and starts to accept graphs. Returns 0, or
// -1 with an error set.
LES_API int32_t les_model_open(struct les_model * model, int32_t n_slots, int32_t n_slots_max, const struct les_callbacks * callbacks);

// Has memory for the first n_slots slots and none for the others, which nobody may touch from before this call until after the
// one that brings them back. May run beside everything but another call of it and les_model_populate. Returns 0, or -1 with an
// error set; then there is memory for what there was before.
LES_API int32_t les_model_resize(struct les_model * model, int32_t n_slots);

// Puts memory behind one part of the slots there are, so that no read has to wait for the system to clear pages. Takes no lock
// and may run beside everything else until les_model_unref.
LES_API void les_model_populate(struct les_model * model, uint64_t off, uint64_t n_bytes);

// No callback is made after this returns; graphs that still run fail.
LES_API void les_model_close(struct les_model * model);

// geometry

LES_API int32_t               les_model_n_layers  (const struct les_model * model);
LES_API struct les_layer_info les_model_layer     (const struct les_model * model, int32_t layer);
LES_API uint64_t              les_model_slot_bytes(const struct les_model * model);
LES_API void *                les_model_arena     (const struct les_model * model);

// running

// Stores an expert's word with release order and wakes compute threads that wait.
LES_API void les_model_publish(struct les_model * model, int32_t layer, int32_t id, uint32_t word);

// Number of guesses per token for this layer; 0 turns its lookahead off.
LES_API void les_model_set_lookahead(struct les_model * model, int32_t layer, int32_t n_guesses);

// Ready-first, the default: an expert is computed as soon as its bytes are in place. Without it a layer's compute starts when
// all its experts are in memory, which is what ready-first is measured against; a step with more experts than slots is as before.
LES_API void les_model_set_ready_first(struct les_model * model, bool ready_first);

// A node for each product of a layer instead of a fused one, for who wants to see what goes into them. To be set after
// les_model_seal, and before a context is made whose graphs are looked at.
LES_API void les_model_set_apart(struct les_model * model, bool apart);

LES_API struct les_counters les_model_counters(struct les_model * model);
LES_API void                les_model_reset_counters(struct les_model * model);

// The first error since the last call that took it; "" if none. The text lives until the next call of les_model_take_error.
LES_API void         les_model_set_error (struct les_model * model, const char * text);
LES_API const char * les_model_take_error(struct les_model * model);

// hooks called by llama.cpp

struct ggml_context;
struct ggml_cgraph;
struct ggml_tensor;
struct ggml_backend_buffer_type;
struct ggml_backend_device;
struct gguf_context;

// What a loader is to make of a tensor that it found in a file.
enum les_place {
    LES_PLACE_PLAIN,   // as it is
    LES_PLACE_EXPERTS, // its experts lie apart, in the extents of the contiguous layout
    LES_PLACE_FILLER,  // takes up room and is no tensor of the model
    LES_PLACE_REFUSED, // the metadata say what cannot be; the reason is in the log
};

// Looks a tensor up in the layout that the metadata of its file describe. Gives experts the name that the model knows
// them by, sets off to the place of the first one and keeps the stride in meta. n_files is the number of the model's files.
LES_API enum les_place les_hook_weight_place(const struct gguf_context * gguf, size_t n_files, uint64_t file_bytes, struct ggml_tensor * meta, uint64_t * off);

// From one expert to the next in the file where they lie apart, 0 where they follow each other.
LES_API uint64_t les_hook_weight_stride(const struct ggml_tensor * meta);

// Buffer type for a tensor that is to stay in its file, NULL if LES is off for this load: one of experts, or the token
// embeddings where only their rows are looked up. owner identifies the load, dev is the CPU device.
LES_API struct ggml_backend_buffer_type * les_hook_weight_buft(const void * owner, const struct ggml_tensor * meta, struct ggml_backend_device * dev);

// Tells LES where a tensor's bytes are; stride as above. True if the tensor is streamed and must not be read.
LES_API bool les_hook_weight_data(const void * owner, struct ggml_tensor * tensor, int32_t file, uint64_t off, uint64_t stride);

// Replaces the nodes of one MoE layer by the fused one where they allow it; down is the last matrix product.
LES_API struct ggml_tensor * les_hook_graph_moe(struct ggml_context * ctx, struct ggml_cgraph * gf, struct ggml_tensor * down, int32_t gating);

// True if the tensor stays in its file, experts or rows; NULL does not.
LES_API bool les_hook_is_streamed(const struct ggml_tensor * tensor);

// True if a node of this graph that needs what stays in files has failed.
LES_API bool les_hook_graph_failed(const struct ggml_cgraph * gf);

#ifdef __cplusplus
}
#endif
