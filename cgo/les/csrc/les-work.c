// Claims: which thread computes which unit of which expert, and in what order.

#include "les-node.h"

#include "iqp.h"

enum les_claim {
    LES_NOTHING, // every unit is claimed
    LES_WORKED,
    LES_BUSY,    // the rest depends on what other threads are computing
    LES_BLOCKED, // the rest depends on bytes that are not in place
};

static bool les_entry_is_panel(const struct les_node * node, const struct les_entry * e) {
    return node->panel && ggml_cpu_iqp_mul_mat_id_min_batch(e->n_rows);
}

static uint32_t les_entry_word(const struct les_node * node, const struct les_entry * e) {
    return atomic_load_explicit(&node->model->words[node->model->layers[node->layer].word0 + (size_t) e->id], memory_order_acquire);
}

// Checked in all builds: a wrong word of the scheduler must fail the step, not read outside the arena.
static bool les_word_has_slot(const struct les_model * model, uint32_t word) {
    const uint32_t number = word >> LES_WORD_SLOT_SHIFT; // slot plus one
    return number >= 1 && number <= (uint32_t) model->n_slots_max;
}

static bool les_claim_second(struct les_node * node, struct les_entry * e, uint32_t word, char * tmp) {
    const bool    panel = les_entry_is_panel(node, e);
    const int32_t total = node->n_second;
    const int32_t step  = panel ? total : 1;
    const int32_t unit  = atomic_fetch_add_explicit(&e->second_next, step, memory_order_relaxed);
    if (unit >= total) {
        return false;
    }
    if (panel) {
        les_unit_panel(node, e, word, tmp);
    } else {
        les_unit_second(node, e, word, unit);
    }
    const int32_t done = atomic_fetch_add_explicit(&e->second_done, step, memory_order_release) + step;
    if (done == total && node->head->starved > 0) {
        les_wake(node->model); // thread 0 may sleep while others wait for the slot of this expert
    }
    return true;
}

static bool les_claim_first(struct les_node * node, struct les_entry * e, uint32_t word, char * tmp) {
    const int32_t unit = atomic_fetch_add_explicit(&e->first_next, 1, memory_order_relaxed);
    if (unit >= node->n_first) {
        return false;
    }
    les_unit_first(node, e, word, unit, tmp);
    if (atomic_fetch_add_explicit(&e->first_done, 1, memory_order_acq_rel) + 1 == node->n_first) {
        les_finish_first(node, e);
    }
    return true;
}

// Does one unit of an entry if one can be done now.
static enum les_claim les_entry_work(struct les_node * node, struct les_entry * e, char * tmp) {
    if (atomic_load_explicit(&e->second_next, memory_order_relaxed) >= node->n_second) {
        return LES_NOTHING;
    }
    const uint32_t word = les_entry_word(node, e);
    if (word & LES_WORD_FAILED) {
        les_node_fail(node, NULL);
        return LES_BLOCKED;
    }
    if ((word & node->spans) != 0 && !les_word_has_slot(node->model, word)) {
        les_node_fail(node, "scheduler published an expert in a slot that there is not");
        return LES_BLOCKED;
    }
    const bool act_ready = node->n_first == 0 || atomic_load_explicit(&e->act_ready, memory_order_acquire);
    if (act_ready) {
        const bool ready = (word & node->spans_second) == node->spans_second;
        return !ready ? LES_BLOCKED : les_claim_second(node, e, word, tmp) ? LES_WORKED : LES_NOTHING;
    }
    if ((word & node->spans_first) != node->spans_first) {
        return LES_BLOCKED;
    }
    if (atomic_load_explicit(&e->first_next, memory_order_relaxed) < node->n_first && les_claim_first(node, e, word, tmp)) {
        return LES_WORKED;
    }
    return LES_BUSY;
}

static bool les_entry_is_done(const struct les_node * node, struct les_entry * e) {
    return atomic_load_explicit(&e->second_done, memory_order_acquire) >= node->n_second;
}

// Thread 0: gives back the slots of experts that have been applied.
void les_node_release(struct les_node * node, bool all) {
    int32_t * ids = node->list + node->down->ne[2];
    int32_t   n   = 0;
    for (int32_t i = 0; i < node->head->n_entries; i++) {
        struct les_entry * e = &node->entries[i];
        if (!e->released && (all || les_entry_is_done(node, e))) {
            e->released = true;
            ids[n++] = e->id;
        }
    }
    if (n > 0) {
        const struct les_callbacks * cb = &node->model->callbacks;
        if (cb->released(cb->user, node->layer, ids, n) < 0) {
            les_node_fail(node, NULL);
        }
    }
}

// Sleeps until something is published. Returns the time it took.
static uint64_t les_node_wait(struct les_node * node, uint32_t seen) {
    const uint64_t start = les_now_ns();
    les_wait(node->model, seen);
    if (!atomic_load_explicit(&node->model->open, memory_order_seq_cst)) {
        les_node_fail(node, "experts were closed while a step was running");
    }
    return les_now_ns() - start;
}

static bool les_node_is_whole(const struct les_node * node) {
    for (int32_t i = 0; i < node->head->n_entries; i++) {
        const uint32_t word = les_entry_word(node, &node->entries[i]);
        if (!(word & LES_WORD_FAILED) && (word & node->spans) != node->spans) {
            return false;
        }
    }
    return true;
}

// Without ready-first: waits for all experts. Starved ones come only when others are given back, so then nothing is waited for.
static uint64_t les_node_wait_whole(struct les_node * node) {
    uint64_t stall = 0;
    while (node->head->starved == 0) {
        const uint32_t seen = atomic_load_explicit(&node->model->progress, memory_order_seq_cst);
        if (atomic_load_explicit(&node->head->failed, memory_order_acquire) || les_node_is_whole(node)) {
            break;
        }
        stall += les_node_wait(node, seen);
    }
    return stall;
}

// Computes until every unit is claimed. What this thread waited for bytes is added to the model's stall.
void les_node_work(struct les_node * node, int ith, char * tmp) {
    const int32_t n = node->head->n_entries;
    const bool whole = atomic_load_explicit(&node->model->whole_layers, memory_order_relaxed);
    uint64_t stall = whole ? les_node_wait_whole(node) : 0;
    int32_t  from  = 0; // entries before this one have no units left
    for (;;) {
        // Ahead of the looks at failed and at the words: whatever changes after them changes progress too.
        const uint32_t seen = atomic_load_explicit(&node->model->progress, memory_order_seq_cst);
        if (atomic_load_explicit(&node->head->failed, memory_order_acquire)) {
            break;
        }
        bool blocked = false;
        bool busy    = false;
        bool worked  = false;
        for (int32_t i = from; i < n && !worked; i++) {
            switch (les_entry_work(node, &node->entries[i], tmp)) {
                case LES_WORKED:  worked  = true; break;
                case LES_BLOCKED: blocked = true; break;
                case LES_BUSY:    busy    = true; break;
                case LES_NOTHING: from += i == from; break;
            }
        }
        if (!worked && !blocked && !busy) {
            break;
        }
        if (ith == 0 && node->head->starved > 0) {
            les_node_release(node, false);
        }
        if (busy && !worked) {
            les_os_pause();
        } else if (!worked) {
            stall += les_node_wait(node, seen);
        }
    }
    atomic_fetch_add_explicit(&node->model->stall_ns, stall, memory_order_relaxed);
}
