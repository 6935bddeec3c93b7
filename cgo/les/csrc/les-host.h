// How a program on libllama gets LES without knowing of it: hooks in llama.cpp's load, context and free ask here whether a
// model is to be streamed, and carry it to the engine that decides.
//
// The engine is not part of these libraries. Whoever has one registers it; where nobody has and one is wanted,
// liblesext-engine is opened: beside the library this is in, else where the system looks. A process that never wants LES never
// loads it.
//
// A load is streamed when the mode is on, or when it is auto and the files are larger than nine tenths of the memory there is.
// A model without routed experts, and one that does not come from a named file, is never streamed and never refused.

#pragma once

#include "les-option.h"

#ifdef __cplusplus
extern "C" {
#endif

struct llama_context;
struct llama_model;
struct llama_model_params;

// Where the memory of a process goes, in bytes; total is the sum of dense to slots.
struct les_plan {
    int64_t dense;
    int64_t kv;
    int64_t compute;
    int64_t process;
    int64_t slots;
    int64_t total;
    int64_t budget;       // 0 when a number of slots was asked for
    int64_t floor;        // least budget
    int64_t expert_bytes; // of one slot
    int32_t slot_count;
    int32_t floor_slots;
    int32_t experts; // of all layers
    int32_t layers;  // streamed
    int32_t lookahead; // layers ahead
    int32_t lanes;     // reads in flight
};

// Counters since the engine was opened; those of lookups are of the routed experts of each layer and step.
struct les_stats {
    int64_t lookups;        // hits + joins + misses
    int64_t hits;           // in memory
    int64_t joins;          // being read already
    int64_t misses;         // to be read from the start
    int64_t guessed;        // experts that were guessed
    int64_t right;          // of them, routed
    int64_t routed_guessed; // routed experts where there were guesses: recall is right / routed_guessed
    int64_t demand_bytes;   // read because needed
    int64_t prefetch_bytes; // read on a guess
    int64_t warm_bytes;     // read ahead in the background
    int64_t retried_reads;
    int64_t failed_reads;   // each failed a step
    int64_t stall_ns;       // waiting for bytes, mean over compute threads
    int32_t cut_percent;    // how often guesses of a rank must come true to be read ahead; above 100 none are
};

// A streamed model, as reports tell of it.
struct les_told {
    const struct llama_model * model; // NULL for one that has been freed
    int64_t                    load;  // number of its load in this process
    char                       name[128]; // of its file, in ASCII; a second one of the same name ends in #2
    struct les_plan            plan;
    struct les_stats           stats;
};

// What an engine is asked. A model is named by the number that load_begin gave. A function that fails says why with
// les_host_fail before it returns; none throws, aborts or prints but through les_host_log.
struct les_host {
    int32_t abi; // LES_HOST_ABI

    // Offers a model to the load that is to begin on this thread. 0 on failure.
    uintptr_t (*load_begin)(const struct les_options * options);
    // The load is done, of files in these paths, and so many bytes of its weights are in memory: 1 if experts are streamed, 0 if
    // there was nothing to stream and the model is forgotten, -1 on failure. Without paths the load has failed, and the model is
    // forgotten.
    int32_t (*load_end)(uintptr_t model, const char * const * paths, size_t n_paths, int64_t weights);
    // A context is about to be made; observed when its nodes are shown to somebody.
    void (*context_begin)(uintptr_t model, bool observed);
    // A context has been made: the first one opens the engine. 0, or -1 on failure.
    int32_t (*context_made)(uintptr_t model, struct llama_context * lctx);
    // A context of any model is about to be freed; what this returns, if not 0, is for context_left, which tells that it is gone.
    uintptr_t (*context_leaves)(const struct llama_context * lctx);
    void      (*context_left  )(uintptr_t number);
    // No context of the model is left, and its weights go next.
    void (*model_free)(uintptr_t model);

    int32_t (*plan)(uintptr_t model, struct les_plan * plan);
    int32_t (*stats)(uintptr_t model, struct les_stats * stats);
    // The new size of the pool, which is there when these return; they wait for the layers in progress.
    int32_t (*set_budget)(uintptr_t model, int64_t bytes);
    int32_t (*set_slots)(uintptr_t model, int32_t slots); // as in les_options
    int32_t (*pressure)(uintptr_t model, int32_t level);

    // A model that is not streamed, of a file with this path and so many bytes of weights in memory, was loaded while there is an
    // engine; it has a context; it is freed.
    void (*other_loaded )(const struct llama_model * model, const char * path, int64_t weights);
    void (*other_context)(const struct llama_model * model, struct llama_context * lctx);
    void (*other_free   )(const struct llama_model * model);
};

#define LES_HOST_ABI 4

// Makes this the engine of the process; the table is copied. Returns 0, or -1 where there is another one or the table is of
// another version.
LES_API int32_t les_host_register(const struct les_host * host);

// The last failure on this thread; "" if there was none. The text lives until the next failure.
LES_API const char * les_host_last_error(void);
LES_API void         les_host_fail(const char * text);

// One line in the program's log: a ggml_log_level, and text without a newline.
LES_API void les_host_log(int32_t level, const char * text);

// Of a streamed model. 0, or -1 with the reason in les_host_last_error.
LES_API int32_t les_host_plan      (const struct llama_model * model, struct les_plan * plan);
LES_API int32_t les_host_stats     (const struct llama_model * model, struct les_stats * stats);
LES_API int32_t les_host_set_budget(const struct llama_model * model, int64_t bytes);

// How short memory is: 0 gives a model what its load, or the last change, asked for; 1 half of the slots above the floor; 2 the
// floor.
LES_API int32_t les_host_pressure(const struct llama_model * model, int32_t level);

// The same for "budget" or "slots", with a value as the option of that name has it.
LES_API int32_t les_host_change(const struct llama_model * model, const char * name, const char * value);

// Of the streamed models of this process the one that was loaded first; NULL where there is none.
LES_API const struct llama_model * les_host_first_model(void);

// The streamed models that have a context, in the order of their loads, or where no model is streamed those that were freed
// since the last load, as they were then. Fills in n at most and returns how many.
LES_API size_t les_host_told(struct les_told * told, size_t n);

// True if a load from this path would be streamed as things are now.
LES_API bool les_host_would_stream(const char * path);

// Tokens of a context that leaves most of the memory to expert slots, for a program that was told no number: one for each MiB
// of the budget as a power of two, from 4096 to 32768 and no more than the model was trained for. 0 where a load from this path
// would not be streamed.
LES_API uint32_t les_host_context_tokens(const char * path);

// hooks called by llama.cpp

// Before a load from path, empty where there is none. It may change params; offload says whether there are devices to offload
// to. False if the load must not take place; the reason is in the log.
LES_API bool les_hook_load_begin(const char * path, struct llama_model_params * params, bool offload);

// After that load, on the same thread; model is NULL when it has failed, paths are those of the parts, if there are several.
// False if the model must be freed; the reason is in the log.
LES_API bool les_hook_load_end(const struct llama_model * model, const char * path, const char * const * paths, size_t n_paths);

// Around the making of a context; observed when nodes are shown to a callback. False if the context must be freed.
LES_API void les_hook_context_begin(const struct llama_model * model, bool observed);
LES_API bool les_hook_context_made (const struct llama_model * model, struct llama_context * lctx);

// Before and after a context, which may be NULL, is freed.
LES_API uintptr_t les_hook_context_leaves(const struct llama_context * lctx);
LES_API void      les_hook_context_left  (uintptr_t number);

// Before and after the weights of a model are freed, on the same thread.
LES_API void les_hook_model_free (const struct llama_model * model);
LES_API void les_hook_model_freed(void);

#ifdef __cplusplus
}

// A context is freed while this lives.
struct les_context_end {
    uintptr_t number;
    explicit les_context_end(const struct llama_context * lctx) : number(les_hook_context_leaves(lctx)) {}
    ~les_context_end() { les_hook_context_left(number); }
};
#endif
