// The life of a model of LES, and the table of words through which scheduler and compute threads talk.

#include "les-impl.h"
#include "les-os.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void les_model_errorf(struct les_model * model, const char * format, ...) {
    char text[sizeof(model->error)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    les_model_set_error(model, text);
}

// life

struct les_model * les_model_new(void) {
    struct les_model * model = calloc(1, sizeof(*model));
    if (model) {
        atomic_init(&model->refs, 1);
    }
    return model;
}

void les_model_ref(struct les_model * model) {
    atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
}

void les_model_unref(struct les_model * model) {
    if (!model || atomic_fetch_sub_explicit(&model->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    les_model_forget(model);
    les_model_close_files(model);
    if (model->arena) {
        les_os_free(model->arena, model->arena_bytes);
    }
    for (int32_t i = 0; i < model->n_weights; i++) {
        free(model->weights[i]);
    }
    free(model->weights);
    for (int32_t i = 0; i < model->n_routers; i++) {
        free(model->routers[i].copy);
    }
    free(model->routers);
    free(model->layers);
    free(model->words);
    free(model);
}

// Reserves the arena and the table of words. False, with an error set, where there is no room.
static bool open_arena(struct les_model * model, int32_t n_slots, int32_t n_slots_max) {
    const struct les_layer * last = &model->layers[model->n_layers - 1];
    const size_t n_words = last->word0 + (size_t) last->info.n_expert;
    if (model->slot_bytes > SIZE_MAX / 2 / (size_t) n_slots_max) {
        les_model_errorf(model, "%d expert slots of %llu bytes are more than can be addressed", n_slots_max, (unsigned long long) model->slot_bytes);
        return false;
    }
    model->words       = calloc(n_words, sizeof(*model->words));
    model->arena_bytes = (size_t) n_slots_max * (size_t) model->slot_bytes;
    model->arena       = les_os_alloc(model->arena_bytes);
    model->n_slots     = 0;
    model->n_slots_max = n_slots_max;
    if (!model->words || !model->arena) {
        les_model_errorf(model, "cannot reserve %zu bytes for %d expert slots", model->arena_bytes, n_slots_max);
    } else if (les_model_resize(model, n_slots) == 0) {
        return true;
    }
    if (model->arena) {
        les_os_free(model->arena, model->arena_bytes);
    }
    free(model->words);
    model->arena = NULL;
    model->words = NULL;
    return false;
}

int32_t les_model_open(struct les_model * model, int32_t n_slots, int32_t n_slots_max, const struct les_callbacks * callbacks) {
    if (model->n_layers == 0 || n_slots < 1 || n_slots > n_slots_max || n_slots_max > LES_MAX_SLOTS || model->arena) {
        les_model_errorf(model, "les_model_open: %d layers, %d slots of %d, %s", model->n_layers, n_slots, n_slots_max, model->arena ? "opened before" : "new");
        return -1;
    }
    if (!open_arena(model, n_slots, n_slots_max)) {
        return -1;
    }
    model->callbacks = *callbacks;
    atomic_store_explicit(&model->open, 1, memory_order_release);
    return 0;
}

int32_t les_model_resize(struct les_model * model, int32_t n_slots) {
    if (!model->arena || n_slots < 1 || n_slots > model->n_slots_max) {
        les_model_errorf(model, "les_model_resize: %d slots of %d", n_slots, model->arena ? model->n_slots_max : 0);
        return -1;
    }
    const size_t now = (size_t) n_slots        * (size_t) model->slot_bytes;
    const size_t was = (size_t) model->n_slots * (size_t) model->slot_bytes;
    if (now < was) {
        les_os_decommit(model->arena + now, was - now);
    } else if (now > was && les_os_commit(model->arena + was, now - was) != 0) {
        les_model_errorf(model, "the system has no memory for %d expert slots of %llu bytes", n_slots, (unsigned long long) model->slot_bytes);
        return -1;
    }
    model->n_slots = n_slots;
    return 0;
}

void les_model_populate(struct les_model * model, uint64_t off, uint64_t n_bytes) {
    les_os_populate(model->arena + off, n_bytes);
}

void les_model_close(struct les_model * model) {
    atomic_store_explicit(&model->open, 0, memory_order_seq_cst);
    atomic_fetch_add_explicit(&model->progress, 1, memory_order_seq_cst);
    les_os_wake(&model->progress);
    while (atomic_load_explicit(&model->running, memory_order_seq_cst) > 0) {
        les_os_wake(&model->progress);
        les_os_pause();
    }
}

int32_t les_model_n_layers(const struct les_model * model) {
    return model->n_layers;
}

struct les_layer_info les_model_layer(const struct les_model * model, int32_t layer) {
    return model->layers[layer].info;
}

uint64_t les_model_slot_bytes(const struct les_model * model) {
    return model->slot_bytes;
}

void * les_model_arena(const struct les_model * model) {
    return model->arena;
}

// running

void les_model_publish(struct les_model * model, int32_t layer, int32_t id, uint32_t word) {
    atomic_store_explicit(&model->words[model->layers[layer].word0 + (size_t) id], word, memory_order_release);
    les_wake(model);
}

void les_wake(struct les_model * model) {
    // Sequentially consistent against the waiter's own order: it counts itself in, then the system looks at progress.
    atomic_fetch_add_explicit(&model->progress, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&model->waiters, memory_order_seq_cst) > 0) {
        les_os_wake(&model->progress);
    }
}

// The longest sleep. Whatever ends a wait also wakes; the bound keeps a scheduler that is broken from hanging a step unseen.
#define LES_WAIT_NS 2000000

void les_wait(struct les_model * model, uint32_t seen) {
    // Long enough to bridge one expert's arithmetic on another thread, short against a read from flash.
    for (int i = 0; i < 200; i++) {
        if (atomic_load_explicit(&model->progress, memory_order_acquire) != seen) {
            return;
        }
        les_os_pause();
    }
    atomic_fetch_add_explicit(&model->waiters, 1, memory_order_seq_cst);
    les_os_wait(&model->progress, seen, LES_WAIT_NS);
    atomic_fetch_sub_explicit(&model->waiters, 1, memory_order_seq_cst);
}

uint64_t les_now_ns(void) {
    return les_os_now_ns();
}

void les_model_set_lookahead(struct les_model * model, int32_t layer, int32_t n_guesses) {
    atomic_store_explicit(&model->layers[layer].lookahead, n_guesses, memory_order_relaxed);
}

void les_model_set_apart(struct les_model * model, bool apart) {
    atomic_store_explicit(&model->apart, apart, memory_order_relaxed);
}

void les_model_set_ready_first(struct les_model * model, bool ready_first) {
    atomic_store_explicit(&model->whole_layers, !ready_first, memory_order_relaxed);
}

struct les_counters les_model_counters(struct les_model * m) {
    return (struct les_counters) {
        .stall_ns   = atomic_load_explicit(&m->stall_ns,   memory_order_relaxed),
        .predict_ns = atomic_load_explicit(&m->predict_ns, memory_order_relaxed),
        .node_ns    = atomic_load_explicit(&m->node_ns,    memory_order_relaxed),
        .n_nodes    = atomic_load_explicit(&m->n_nodes,    memory_order_relaxed),
        .n_threads  = atomic_load_explicit(&m->n_threads,  memory_order_relaxed),
    };
}

void les_model_reset_counters(struct les_model * model) {
    atomic_store_explicit(&model->stall_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&model->predict_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&model->node_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&model->n_nodes, 0, memory_order_relaxed);
}

void les_model_set_error(struct les_model * model, const char * text) {
    les_lock(&model->error_lock);
    if (model->error[0] == 0) {
        snprintf(model->error, sizeof(model->error), "%s", text);
    }
    les_unlock(&model->error_lock);
}

const char * les_model_take_error(struct les_model * model) {
    les_lock(&model->error_lock);
    memcpy(model->error_taken, model->error, sizeof(model->error));
    model->error[0] = 0;
    les_unlock(&model->error_lock);
    return model->error_taken;
}
