#include "les-host.h"
#include "les-fit.h"
#include "les-hosted.h"
#include "les-impl.h"
#include "les-library.h"

#include "ggml-impl.h"
#include "llama.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The lock guards all of it.
static struct {
    _Atomic int32_t lock;
    bool            registered;
    struct les_host host;    // constant once registered
    int64_t         process; // in which it was registered
} les_h;

// The load that runs on this thread, and whether it frees a streamed model.
static _Thread_local struct {
    bool      active;
    uintptr_t id;
    bool      other; // it takes memory and is not streamed
    bool      freeing;
} les_l;

static _Thread_local char les_error[1400];

// errors and the log

void les_host_fail(const char * text) {
    snprintf(les_error, sizeof(les_error), "%s", text);
}

const char * les_host_last_error(void) {
    return les_error;
}

void les_host_log(int32_t level, const char * text) {
    ggml_log_internal((enum ggml_log_level) level, "LES: %s\n", text);
}

static void les_logf(enum ggml_log_level level, const char * format, ...) {
    char text[1400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (level == GGML_LOG_LEVEL_ERROR) {
        les_host_fail(text);
    }
    les_host_log(level, text);
}

// the engine

int32_t les_host_register(const struct les_host * host) {
    if (host->abi != LES_HOST_ABI) {
        return -1;
    }
    les_lock(&les_h.lock);
    const bool other = les_h.registered && les_h.host.load_begin != host->load_begin;
    if (!les_h.registered) {
        les_h.host       = *host;
        les_h.process    = les_library_process();
        les_h.registered = true;
    }
    les_unlock(&les_h.lock);
    return other ? -1 : 0;
}

// The engine of this process, NULL where there is none. A child of fork has none either: it got no thread of the engine.
static const struct les_host * les_engine(void) {
    les_lock(&les_h.lock);
    const bool usable = les_h.registered && les_h.process == les_library_process();
    les_unlock(&les_h.lock);
    return usable ? &les_h.host : NULL;
}

// The engine, opened if there is none yet; NULL with the reason set.
static const struct les_host * les_want_engine(const char ** reason) {
    const struct les_host * host = les_engine();
    if (host) {
        return host;
    }
    les_lock(&les_h.lock);
    const bool forked = les_h.registered;
    les_unlock(&les_h.lock);
    *reason = forked ? "a child of fork has no engine" : les_library_open_engine();
    return *reason ? NULL : les_engine();
}

// models

// The engine and the number of a streamed model; NULL with an error set.
static const struct les_host * les_streamed(const struct llama_model * model, uintptr_t * id) {
    *id = les_hosted_id(model);
    const struct les_host * host = *id ? les_engine() : NULL;
    if (!host) {
        les_host_fail(*id ? "a child of fork has no engine" : "the model is not streamed");
    }
    return host;
}

int32_t les_host_plan(const struct llama_model * model, struct les_plan * plan) {
    uintptr_t id;
    const struct les_host * host = les_streamed(model, &id);
    return host ? host->plan(id, plan) : -1;
}

int32_t les_host_stats(const struct llama_model * model, struct les_stats * stats) {
    uintptr_t id;
    const struct les_host * host = les_streamed(model, &id);
    return host ? host->stats(id, stats) : -1;
}

int32_t les_host_set_budget(const struct llama_model * model, int64_t bytes) {
    uintptr_t id;
    const struct les_host * host = les_streamed(model, &id);
    return host ? host->set_budget(id, bytes) : -1;
}

int32_t les_host_pressure(const struct llama_model * model, int32_t level) {
    uintptr_t id;
    const struct les_host * host = les_streamed(model, &id);
    return host ? host->pressure(id, level) : -1;
}

int32_t les_host_change(const struct llama_model * model, const char * name, const char * value) {
    struct les_options options = les_options_default();
    const bool   known  = strcmp(name, "budget") == 0 || strcmp(name, "slots") == 0;
    const char * reason = known ? les_options_set(&options, name, value) : "is neither budget nor slots";
    if (reason) {
        char text[sizeof(les_error)];
        snprintf(text, sizeof(text), "%s: %s", name, reason);
        les_host_fail(text);
        return -1;
    }
    if (options.budget > 0) {
        return les_host_set_budget(model, options.budget);
    }
    uintptr_t id;
    const struct les_host * host = les_streamed(model, &id);
    return host ? host->set_slots(id, options.slots) : -1;
}

const struct llama_model * les_host_first_model(void) {
    struct les_told told = { 0 };
    return les_hosted_next(&told) ? told.model : NULL;
}

// Fills in a model's plan and counters. A failure is not the caller's: it leaves no error.
static bool les_tell(const struct les_host * host, uintptr_t id, struct les_told * told) {
    char before[sizeof(les_error)];
    memcpy(before, les_error, sizeof(before));
    const bool known = host->plan(id, &told->plan) == 0 && host->stats(id, &told->stats) == 0;
    if (!known) {
        memcpy(les_error, before, sizeof(before));
    }
    return known;
}

size_t les_host_told(struct les_told * told, size_t n) {
    const struct les_host * host = les_engine();
    struct les_told at = { 0 };
    size_t found = 0;
    while (host && found < n && les_hosted_next(&at)) {
        told[found] = at;
        found += !at.model || les_tell(host, les_hosted_id(at.model), &told[found]) ? 1 : 0;
    }
    return found;
}

// loads

const void * les_thread_loading(void) {
    return les_l.active ? &les_l : NULL;
}

// The reason why a model with experts cannot be streamed as it is to be loaded; NULL if it can.
static const char * les_obstacle(const struct les_look * look, const struct llama_model_params * params, bool offload) {
    static _Thread_local char text[512];
    const bool devices = !params->devices || params->devices[0];
    if (offload && devices && params->n_gpu_layers != 0) {
        return "layers are offloaded to a device, and experts are streamed to the processor only; -ngl 0 keeps them there";
    }
    for (const struct llama_model_tensor_buft_override * o = params->tensor_buft_overrides; o && o->pattern; o++) {
        const char * name = les_override_hits(o->pattern, look->blocks);
        if (name) {
            snprintf(text, sizeof(text), "an override of buffer types (-ot, --cpu-moe) places %s, which would be streamed", name);
            return text;
        }
    }
    return NULL;
}

// Weights that stay in memory are read, as mapped pages would be reclaimed in mid-run; what was to be locked is. Rearranged
// weights would give other results.
static void les_change_params(struct llama_model_params * params) {
    switch (params->load_mode) {
        case LLAMA_LOAD_MODE_MLOCK:
        case LLAMA_LOAD_MODE_MMAP_MLOCK:
            les_logf(GGML_LOG_LEVEL_WARN, "weights that stay in memory are locked there, expert slots are not");
            params->load_mode = LLAMA_LOAD_MODE_MLOCK;
            break;
        case LLAMA_LOAD_MODE_DIRECT_IO:
            break;
        default:
            params->load_mode = LLAMA_LOAD_MODE_NONE;
    }
    params->use_extra_bufts = false;
}

// Begins a streamed load. In auto mode whatever is in the way is told of, and the load goes on without LES.
static bool les_stream(const char * path, const struct les_look * look, const struct les_options * options, struct llama_model_params * params, bool offload) {
    const char * reason = les_obstacle(look, params, offload);
    const struct les_host * host = reason ? NULL : les_want_engine(&reason);
    if (host) {
        les_l.active = true; // what is offered meanwhile is for this thread
        les_l.id     = host->load_begin(options);
        if (les_l.id) {
            les_change_params(params);
            return true;
        }
        les_l.active = false;
        reason = les_error;
    }
    if (options->mode == LES_MODE_ON) {
        les_logf(GGML_LOG_LEVEL_ERROR, "%s: cannot stream: %s", path, reason);
        return false;
    }
    les_logf(GGML_LOG_LEVEL_WARN, "off, although %s does not fit the memory there is: %s", path, reason);
    return true;
}

// True if somebody else has offered a model to the next load, or this load is a part of another one.
static bool les_keep_out(const char * path, const struct llama_model_params * params) {
    return !*path || params->vocab_only || params->no_alloc || les_l.active || les_model_is_offered();
}

bool les_hook_load_begin(const char * path, struct llama_model_params * params, bool offload) {
    les_l.other = false; // a load that was refused has no end
    if (les_keep_out(path, params)) {
        return true;
    }
    les_l.other = true;
    struct les_options options;
    const char * reason = les_options_now(&options);
    if (reason) {
        les_logf(GGML_LOG_LEVEL_ERROR, "%s", reason);
        return false;
    }
    if (options.mode == LES_MODE_OFF) {
        return true;
    }
    const struct les_look look = les_look_again(path);
    if (look.experts == 0) {
        return true;
    }
    uint64_t available = 0;
    if (options.mode == LES_MODE_AUTO && !les_too_large(&look, &available)) {
        return true;
    }
    if (!les_stream(path, &look, &options, params, offload)) {
        return false;
    }
    if (options.mode == LES_MODE_AUTO && les_l.active) {
        les_logf(GGML_LOG_LEVEL_INFO, "on (auto): the model has %.2f GiB, and %.2f GiB of memory are available; experts are streamed. LES=off switches it off",
            (double) look.n_bytes/(1 << 30), (double) available/(1 << 30));
    }
    return true;
}

bool les_hook_load_end(const struct llama_model * model, const char * path, const char * const * paths, size_t n_paths) {
    const bool other = les_l.other && !les_l.active;
    les_l.other = false;
    const int64_t weights = (int64_t) les_memory_take_weights();
    const struct les_host * engine = other && model ? les_engine() : NULL;
    if (engine) {
        engine->other_loaded(model, path, weights);
    }
    if (!les_l.active) {
        return true;
    }
    les_l.active = false;
    const uintptr_t id = les_l.id;
    const struct les_host * host = &les_h.host;
    if (!model) {
        host->load_end(id, NULL, 0, 0);
        return true;
    }
    const int32_t status = n_paths > 0 ? host->load_end(id, paths, n_paths, weights) : host->load_end(id, &path, 1, weights);
    if (status < 0) {
        les_logf(GGML_LOG_LEVEL_ERROR, "%s: cannot stream: %s", path, les_error);
        return false;
    }
    if (status == 1 && !les_hosted_add(model, id, path)) {
        host->model_free(id);
        les_logf(GGML_LOG_LEVEL_ERROR, "%s: no memory to remember the model", path);
        return false;
    }
    return true;
}

// contexts

void les_hook_context_begin(const struct llama_model * model, bool observed) {
    const uintptr_t id = les_hosted_id(model);
    const struct les_host * host = id ? les_engine() : NULL;
    if (host) {
        host->context_begin(id, observed);
    }
}

bool les_hook_context_made(const struct llama_model * model, struct llama_context * lctx) {
    uintptr_t id;
    if (les_hosted_id(model) == 0) {
        const struct les_host * engine = les_engine();
        if (engine) {
            engine->other_context(model, lctx);
        }
        return true;
    }
    const struct les_host * host = les_streamed(model, &id);
    if (!host || host->context_made(id, lctx) != 0) {
        les_logf(GGML_LOG_LEVEL_ERROR, "%s", les_error);
        return false;
    }
    return true;
}

uintptr_t les_hook_context_leaves(const struct llama_context * lctx) {
    const struct les_host * engine = lctx ? les_engine() : NULL;
    return engine ? engine->context_leaves(lctx) : 0;
}

void les_hook_context_left(uintptr_t number) {
    const struct les_host * engine = number ? les_engine() : NULL;
    if (engine) {
        engine->context_left(number);
    }
}

void les_model_report(struct les_model * model) {
    if (model->hosted) {
        les_logf(GGML_LOG_LEVEL_ERROR, "%s", les_model_take_error(model));
    }
}

void les_hook_model_free(const struct llama_model * model) {
    const uintptr_t id = les_hosted_id(model);
    const struct les_host * engine = les_engine();
    if (engine && id == 0) {
        engine->other_free(model);
    }
    const struct les_host * host = id ? engine : NULL;
    struct les_told told;
    const bool known = host && les_tell(host, id, &told);
    les_hosted_end(model, known ? &told : NULL);
    struct les_told other = { 0 };
    while (known && les_hosted_next(&other) && other.model) {
        if (les_tell(host, les_hosted_id(other.model), &other)) {
            les_hosted_mark(other.model, other.stats.lookups);
        }
    }
    les_l.freeing = host != NULL;
    if (host) {
        host->model_free(id);
    }
}

// Weights that stay are read into memory of malloc, of which glibc keeps tens of MiB after the first model.
void les_hook_model_freed(void) {
    if (les_l.freeing) {
        les_l.freeing = false;
        les_os_trim();
    }
}
