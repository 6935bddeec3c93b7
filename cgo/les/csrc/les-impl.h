// LES internals shared by its C files; not for hosts.

#pragma once

#include "les.h"
#include "les-os.h"

#include "ggml.h"

#include <stdatomic.h>

#define LES_MAX_SLOTS ((1 << (32 - LES_WORD_SLOT_SHIFT)) - 2) // a word holds the slot's number plus one

#define LES_MATRIX_ALIGN 32 // of the matrices inside an extent of the contiguous layout

// Wider steps than this are prefill: they stream whole layers and are not predicted.
#define LES_PREDICT_TOKENS_MAX 8

// What a tensor carries in tensor->extra once it is in the LES buffer. It has experts, which go through slots, or rows,
// which are read from the file each time they are looked up.
struct les_weight {
    struct les_model * model;
    bool               rows;  // a matrix of rows; layer, span and rel are of experts only
    int32_t            layer; // index among streamed layers, -1 until sealed
    int32_t            span;
    uint64_t           rel;   // offset of this projection inside its span
    int32_t            file;
    uint64_t           off;   // file offset of expert 0, UINT64_MAX until the loader has told it
    uint64_t           stride; // from one expert to the next in the file
    bool               contiguous; // its matrices are in the extents of the contiguous layout
    struct ggml_tensor * tensor;
};

// Where the router of a block is; any of them may be missing.
struct les_router {
    int32_t block;
    struct ggml_tensor * weight; // [n_embd, n_expert]
    struct ggml_tensor * bias;   // [n_expert], added to the logits
    struct ggml_tensor * select; // [n_expert], added to the scores for selection only
    struct ggml_tensor   guess;  // the weight as the lookahead uses it: a smaller copy, or itself; no data where there is none
    void *               copy;   // owned memory of the copy, NULL when there is none
};

struct les_layer {
    struct les_layer_info info;
    char                  kind[GGML_MAX_NAME]; // what follows the role in the tensors' names: "exps", "chexps"
    int32_t               router;    // index into routers, -1 if unknown
    int32_t               next;      // next streamed layer of the same kind in a later block, -1 at the end
    _Atomic int32_t       lookahead; // guesses per token, stored by the scheduler, loaded by compute threads
    size_t                word0;     // index of its first word in the table
};

// A file that rows are read from.
struct les_file {
    int    handle; // of les-os.h
    char * path;   // NULL where the file is not open
};

struct les_model {
    _Atomic int32_t refs;

    // set by the loader hooks, constant once sealed
    struct les_weight ** weights;
    int32_t             n_weights;
    int32_t             cap_weights;
    struct les_router * routers;
    int32_t             n_routers;
    int32_t             cap_routers;
    struct les_layer *  layers;
    int32_t             n_layers;
    uint64_t            slot_bytes;
    const void *        owner; // the loader that took this model
    bool                hosted; // offered by les-host.h, which tells the log of failures
    const void *        advised; // the buffer of dense weights that huge pages were asked for last

    // set by les_model_set_file, constant while there are graphs
    struct les_file * files;
    int32_t           n_files;

    // set by les_model_open
    struct les_callbacks callbacks;
    uint8_t *            arena;
    size_t               arena_bytes;
    int32_t              n_slots;     // of which there is memory: les_model_resize changes it
    int32_t              n_slots_max; // of which there are addresses
    _Atomic uint32_t *   words; // stored by the scheduler, loaded by compute threads
    _Atomic int32_t      open;  // 0 before les_model_open and after les_model_close
    _Atomic int32_t      running; // nodes being computed; les_model_close waits until there is none

    _Atomic int32_t whole_layers; // not ready-first: set by the host, loaded by compute threads
    _Atomic int32_t apart;        // no fused nodes: set by the host, loaded where graphs are built

    // Publishes since the model was opened. Stored by the scheduler's threads, waited on by compute threads.
    _Atomic uint32_t progress;
    _Atomic int32_t  waiters;

    _Atomic uint64_t stall_ns;
    _Atomic uint64_t predict_ns;
    _Atomic uint64_t node_ns;
    _Atomic uint64_t n_nodes;
    _Atomic int32_t  n_threads;

    _Atomic int32_t error_lock;
    char            error[1024];
    char            error_taken[1024];
};

// Operations the fused graph uses, told apart by the custom op's function pointer.
void les_op_moe    (struct ggml_tensor * dst, int ith, int nth, void * userdata);
void les_op_predict(struct ggml_tensor * dst, int ith, int nth, void * userdata);

// Places in op_params (int32 units) behind ggml's own custom parameters.
enum {
    LES_PARAM_ACT    = 8,  // the four parameters of the activation that was fused; a lookahead node has its layer here
    LES_PARAM_STRIDE = 8,  // of a tensor that the loader has only described: 64 bits
    LES_PARAM_GATING = 12, // llama.cpp's gating function of the router
    LES_PARAM_FAILED = 15, // set by the node when it failed, also on MUL_MAT_ID and GET_ROWS
};

// Sources of the fused node.
enum {
    LES_SRC_X         = 0,
    LES_SRC_IDS       = 1,
    LES_SRC_DOWN      = 2,
    LES_SRC_UP        = 3, // up, or gate and up merged
    LES_SRC_GATE      = 4, // missing when merged, and when there is none
    LES_SRC_ROUTER    = 5, // of the next streamed layer; missing when there is none
    LES_SRC_UP_BIAS   = 6, // of up, or of gate and up merged; missing without
    LES_SRC_GATE_BIAS = 7, // missing without or when merged
};

static inline const struct les_weight * les_weight_of(const struct ggml_tensor * t) {
    return (const struct les_weight *) t->extra;
}

// les-router.c: makes the copy of a router that the lookahead uses. Without memory or data there is none.
void les_router_copy(struct les_router * r);

// What the lookahead of a layer multiplies x with. The layer has a next one with a router.
static inline const struct ggml_tensor * les_guess_weight(const struct les_model * m, int32_t layer) {
    return &m->routers[m->layers[m->layers[layer].next].router].guess;
}

// Called by the buffer when it takes in a tensor. Returns what tensor->extra is to hold.
LES_API struct les_weight * les_model_add_weight(struct les_model * model, struct ggml_tensor * t);
LES_API struct les_model *  les_model_loading(void);

// What stands for this thread while a hook of les-host.h streams a load on it, else NULL.
const void * les_thread_loading(void);

// True while somebody who is not les-host.h offers a model to a load, or has not sealed it.
bool les_model_is_offered(void);

LES_API bool                les_op_is(const struct ggml_tensor * t, bool * fused);

// Reads bytes of a tensor of rows, counted from its first one. False, with an error set, when they cannot be had.
LES_API bool les_weight_read(const struct les_weight * w, void * buf, uint64_t at, size_t n_bytes);

// Waiting: returns when progress differs from seen, or after a bounded time.
LES_API void     les_wait(struct les_model * model, uint32_t seen);
LES_API void     les_wake(struct les_model * model); // progress differs from here on
LES_API uint64_t les_now_ns(void);

// Address of expert id's bytes of this projection, given its word.
static inline char * les_expert_data(const struct les_weight * w, int32_t id, uint32_t word) {
    const struct les_model * m = w->model;
    const struct les_span *  s = &m->layers[w->layer].info.spans[w->span];
    const uint64_t off  = s->off + (uint64_t) id*s->stride;
    const uint64_t slot = (word >> LES_WORD_SLOT_SHIFT) - 1;
    return (char *) m->arena + slot*m->slot_bytes + s->slot_off + off % LES_ALIGN + w->rel;
}

// A short critical section over a few words; never held across a call that may block.
static inline void les_lock(_Atomic int32_t * lock) {
    while (atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0) {
        les_os_pause();
    }
}

static inline void les_unlock(_Atomic int32_t * lock) {
    atomic_store_explicit(lock, 0, memory_order_release);
}

LES_API void les_model_errorf(struct les_model * model, const char * format, ...);
void les_model_forget     (struct les_model * model); // ends its part in a load
void les_model_report     (struct les_model * model); // of a hosted model: its error goes to the log
void les_model_close_files(struct les_model * model);
