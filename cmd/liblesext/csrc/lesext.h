/* lesext: Mixture-of-Experts models far larger than memory, for applications on llama.cpp.
 *
 * An application that calls lesext_enable before it loads a model with llama_model_load_from_file streams that model's experts
 * from its file; nothing else in the application changes, and no bit of the results does. Without any call, the environment
 * (LES, LES_BUDGET, LES_SLOTS, LES_LOOKAHEAD, LES_LANES, LES_WARM) decides, and with that unset a model is streamed when its
 * files are larger than nine tenths of the memory there is.
 *
 *     struct lesext_options options = lesext_default_options();
 *     options.budget_bytes = (uint64_t) 4 << 30;
 *     if (lesext_enable(&options) != 0) { puts(lesext_last_error()); }
 *     struct llama_model   * model = llama_model_load_from_file(path, llama_model_default_params());
 *     struct llama_context * lctx  = llama_init_from_model(model, llama_context_default_params());
 *
 * What cannot be streamed as asked (a budget below the least that works, say) makes the load or the context fail with NULL; the
 * reason is in llama.cpp's log and in lesext_last_error.
 *
 * All functions may be called from any thread, also while others decode; those on a model not while it is being freed, and none
 * from a signal handler. In the log callback a model's plan and counters may be asked for, and the last error. None exits or
 * prints but through llama.cpp's log callback. Those that return int return 0, or -1 on failure, which changes nothing and whose
 * reason is in lesext_last_error. Sizes are in bytes, times in nanoseconds. The library keeps nothing but the options for coming
 * loads; texts that it is given are copied. A child of fork that does not call exec cannot stream; its parent is not disturbed.
 *
 * Structures begin with their size, so that later versions can add to their end. C99 and C++.
 */

#ifndef LESEXT_H
#define LESEXT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#    define LESEXT_API __attribute__((visibility("default")))
#else
#    define LESEXT_API
#endif

#define LESEXT_SLOTS_FROM_BUDGET (-1)
#define LESEXT_SLOTS_ALL         (-2)

struct llama_model;

/* How coming loads are to be streamed. Start from lesext_default_options. */
struct lesext_options {
    size_t       size;         /* of this structure */
    uint64_t     budget_bytes; /* memory for the whole process; 0: nine tenths of the memory there is */
    int32_t      slots;        /* instead of a budget: expert slots a layer above the least there must be */
    int32_t      lookahead;    /* layers ahead whose experts are read early: 1, or 0 to read on demand */
    int32_t      lanes;        /* reads in flight; 0: as many as are best as a rule */
    int32_t      automatic;    /* not 0, and nothing else set: stream only models that do not fit the memory there is */
    const char * warm_file;    /* remembers from run to run which experts were hot; NULL for none */
};

/* Where the memory of the process goes, in bytes; total is the sum of dense to slots. */
struct lesext_plan {
    size_t  size;
    int64_t dense_bytes;   /* weights that stay in memory */
    int64_t kv_bytes;      /* KV cache and recurrent state */
    int64_t compute_bytes; /* graph and work buffers */
    int64_t process_bytes; /* everything else the process holds */
    int64_t slots_bytes;   /* expert slots */
    int64_t total_bytes;
    int64_t budget_bytes;  /* 0 when a number of slots was asked for */
    int64_t floor_bytes;   /* the least budget */
    int64_t slot_bytes;    /* of one slot */
    int32_t slots;         /* in all */
    int32_t floor_slots;   /* of them the least there must be */
    int32_t experts;       /* of all layers */
    int32_t layers;        /* that are streamed */
};

/* Counters since the first context of the model was made. They only grow. */
struct lesext_stats {
    size_t  size;
    int64_t lookups;        /* routed experts of each layer and step: hits + joins + misses */
    int64_t hits;           /* in memory */
    int64_t joins;          /* being read already */
    int64_t misses;         /* to be read from the start */
    int64_t guessed;        /* experts that were guessed ahead */
    int64_t right;          /* of them, routed */
    int64_t routed_guessed; /* routed experts where there were guesses: recall is right / routed_guessed */
    int64_t demand_bytes;   /* read because they were needed */
    int64_t prefetch_bytes; /* read on a guess */
    int64_t warm_bytes;     /* read ahead in the background */
    int64_t retried_reads;
    int64_t failed_reads;   /* each of them failed a decode */
    int64_t stall_ns;       /* spent waiting for bytes, mean over compute threads */
};

/* What a system tells of its memory. */
enum lesext_pressure {
    LESEXT_PRESSURE_NONE     = 0, /* what the load asked for again, or the last change of budget */
    LESEXT_PRESSURE_MODERATE = 1, /* half of the slots above the least there must be */
    LESEXT_PRESSURE_CRITICAL = 2  /* the least there must be */
};

/* Options that change nothing: a budget from the memory there is, one layer of lookahead. It cannot fail. */
LESEXT_API struct lesext_options lesext_default_options(void);

/* Streams models that are loaded from now on; NULL stands for the default options. They win over the environment, and are those
 * of the process, whichever thread loads. Fails where an option is refused, with its name. */
LESEXT_API int lesext_enable(const struct lesext_options * options);

/* Loads models from now on as llama.cpp does, whatever the environment says. Models that are streamed stay so. It cannot fail. */
LESEXT_API void lesext_disable(void);

/* Reads a size as LES_BUDGET has it, 4G, 512M, 1.5GiB or 1048576, units being powers of 1024, and fills in bytes. Fails where the
 * text is none, or not more than zero, or out of range. */
LESEXT_API int lesext_parse_size(const char * text, uint64_t * bytes);

/* The plan and the counters of a streamed model that has a context. The caller sets size. Fails where the model is not streamed,
 * has had no context yet, or the size is that of another version. Waits for nothing. */
LESEXT_API int lesext_plan (const struct llama_model * model, struct lesext_plan * plan);
LESEXT_API int lesext_stats(const struct llama_model * model, struct lesext_stats * stats);

/* Another budget in bytes for the process while the model runs: when it returns, slots have come or gone, and their memory with
 * them; new ones are filled in the background. It ends memory pressure. Fails below the floor, with both numbers. Waits for the
 * layers that are being computed and for other changes. */
LESEXT_API int lesext_set_budget(const struct llama_model * model, uint64_t bytes);

/* Tells a streamed model how short memory is, until it is told otherwise or its budget is changed; models that are loaded or freed
 * beside it change nothing of that. Fails where the level is none of these. Waits as lesext_set_budget does. */
LESEXT_API int lesext_memory_pressure(const struct llama_model * model, enum lesext_pressure level);

/* The last failure on this thread, "" if there was none, never NULL; the text lives until the next failure on this thread. A call
 * of llama.h may fail for a reason that is not LES's: cleared before it, the error is that call's or "". */
LESEXT_API const char * lesext_last_error (void);
LESEXT_API void         lesext_clear_error(void);

/* The version of LES, like "0.1.0"; the text is constant. */
LESEXT_API const char * lesext_version(void);

#ifdef __cplusplus
}
#endif

#endif
