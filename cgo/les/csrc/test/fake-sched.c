// A scheduler that knows one policy only: a random expert next, into a random slot that nobody pins.

#include "les-test.h"

static struct fake_expert * expert_of(struct fake_sched * s, int32_t key) {
    return &s->experts[key/FAKE_EXPERTS_MAX][key % FAKE_EXPERTS_MAX];
}

static uint8_t * slot_bytes_of(struct fake_sched * s, int32_t slot, const struct les_span * span, uint64_t off) {
    uint8_t * arena = les_model_arena(s->model->les);
    return arena + (size_t) slot*les_model_slot_bytes(s->model->les) + span->slot_off + off % LES_ALIGN;
}

// Takes a slot that is empty, or whose expert is neither pinned nor being filled. -1 when there is none.
static int32_t take_slot_locked(struct fake_sched * s) {
    const int32_t start = (int32_t) (chance(&s->chance) % (uint32_t) s->n_slots);
    for (int32_t i = 0; i < s->n_slots; i++) {
        const int32_t slot = (start + i) % s->n_slots;
        if (s->owner[slot] < 0) {
            return slot;
        }
        struct fake_expert * e = expert_of(s, s->owner[slot]);
        CHECK(e->slot == slot);
        if (e->pins == 0 && !e->queued) {
            les_model_publish(s->model->les, s->owner[slot]/FAKE_EXPERTS_MAX, s->owner[slot] % FAKE_EXPERTS_MAX, 0);
            e->slot = -1;
            s->owner[slot] = -1;
            return slot;
        }
    }
    return -1;
}

static bool give_slot_locked(struct fake_sched * s, int32_t key) {
    const int32_t slot = take_slot_locked(s);
    if (slot < 0) {
        return false;
    }
    const uint64_t n_bytes = les_model_slot_bytes(s->model->les);
    memset((uint8_t *) les_model_arena(s->model->les) + (size_t) slot*n_bytes, 0xA5, n_bytes);
    s->owner[slot] = key;
    expert_of(s, key)->slot = slot;
    return true;
}

// callbacks

static int32_t fake_routed(void * user, int32_t layer, const int32_t * ids, int32_t n, uint32_t spans, int32_t n_tokens) {
    struct fake_sched * s = user;
    int32_t starved = 0;
    CHECK(layer >= 0 && layer < s->model->n_layers && n > 0 && n_tokens > 0 && spans != 0 && spans < 1u << LES_MAX_SPANS);
    pthread_mutex_lock(&s->lock);
    s->n_calls++;
    for (int32_t i = 0; i < n; i++) {
        CHECK(ids[i] >= 0 && ids[i] < s->model->layers[layer].n_expert);
        CHECK(i == 0 || ids[i - 1] < ids[i]);
        struct fake_expert * e = &s->experts[layer][ids[i]];
        CHECK(e->pins < s->n_graphs);
        e->pins++;
        e->routed++;
        if (e->failed) { // this step asks anew
            e->failed = false;
            les_model_publish(s->model->les, layer, ids[i], 0);
            e->queued = true;
        }
        if (e->slot < 0) { // queued already where another graph waits for it
            e->queued = true;
            starved += !give_slot_locked(s, layer*FAKE_EXPERTS_MAX + ids[i]);
        }
    }
    pthread_cond_signal(&s->work);
    const int32_t status = s->status_routed;
    pthread_mutex_unlock(&s->lock);
    return status < 0 ? status : starved;
}

// The bytes of an expert that is given back are still those of the file: nobody wrote into its slot meanwhile.
static void check_bytes_locked(struct fake_sched * s, int32_t layer, int32_t id) {
    const struct fake_expert * e = &s->experts[layer][id];
    if (e->slot < 0 || e->queued || e->failed) {
        return;
    }
    const struct les_layer_info info = les_model_layer(s->model->les, layer);
    for (int32_t i = 0; i < info.n_spans; i++) {
        const uint64_t off = info.spans[i].off + (uint64_t) id*info.spans[i].stride;
        CHECK(memcmp(slot_bytes_of(s, e->slot, &info.spans[i], off), s->model->file[info.spans[i].file] + off, info.spans[i].n_bytes) == 0);
    }
}

static int32_t fake_released(void * user, int32_t layer, const int32_t * ids, int32_t n) {
    struct fake_sched * s = user;
    pthread_mutex_lock(&s->lock);
    s->n_calls++;
    for (int32_t i = 0; i < n; i++) {
        CHECK(layer >= 0 && layer < s->model->n_layers && ids[i] >= 0 && ids[i] < s->model->layers[layer].n_expert);
        struct fake_expert * e = &s->experts[layer][ids[i]];
        CHECK(e->pins > 0);
        check_bytes_locked(s, layer, ids[i]);
        e->pins--;
        e->released++;
        if (e->slot < 0 && e->pins == 0) {
            e->queued = false; // given up by a step that failed
        }
    }
    pthread_cond_signal(&s->work);
    const int32_t status = s->status_released;
    pthread_mutex_unlock(&s->lock);
    return status;
}

static int32_t fake_predicted(void * user, int32_t layer, const int32_t * ids, int32_t n) {
    struct fake_sched * s = user;
    CHECK(layer >= 0 && layer < s->model->n_layers && n >= 0 && n <= FAKE_EXPERTS_MAX);
    if (s->guess_us > 0) {
        atomic_store(&s->guess_begun, 1);
        usleep((useconds_t) s->guess_us);
        atomic_store(&s->guess_ended, 1);
    }
    pthread_mutex_lock(&s->lock);
    s->n_calls++;
    if (s->n_guesses < FAKE_GUESS_CALLS_MAX) {
        struct fake_guess * g = &s->guesses[s->n_guesses];
        g->layer = layer;
        g->n     = n;
        memcpy(g->ids, ids, (size_t) n*sizeof(*ids));
    }
    s->n_guesses++;
    for (int32_t i = 0; i < n; i++) {
        CHECK(ids[i] >= 0 && ids[i] < s->model->layers[layer].n_expert);
    }
    const int32_t status = s->status_predicted;
    pthread_mutex_unlock(&s->lock);
    return status;
}

struct les_callbacks fake_sched_callbacks(struct fake_sched * s) {
    return (struct les_callbacks) { .user = s, .routed = fake_routed, .predicted = fake_predicted, .released = fake_released };
}

// filling

// A random queued expert that has a slot, or gets one now; -1 when there is none.
static int32_t pick_locked(struct fake_sched * s) {
    const int32_t n_keys = s->model->n_layers*FAKE_EXPERTS_MAX;
    const int32_t start  = (int32_t) (chance(&s->chance) % (uint32_t) n_keys);
    for (int32_t i = 0; i < n_keys && !s->stuck; i++) {
        const int32_t key = (start + i) % n_keys;
        const struct fake_expert * e = expert_of(s, key);
        if (e->queued && (e->slot >= 0 || give_slot_locked(s, key))) {
            return key;
        }
    }
    return -1;
}

// Copies an expert span by span, each published as soon as it is in place. The lock is not held meanwhile: the expert
// is queued, so that its slot stays its own.
static void fill(struct fake_sched * s, int32_t key, int32_t slot, uint64_t * state) {
    const int32_t layer = key/FAKE_EXPERTS_MAX;
    const int32_t id    = key % FAKE_EXPERTS_MAX;
    const struct les_layer_info info = les_model_layer(s->model->les, layer);
    uint32_t word = ((uint32_t) slot + 1) << LES_WORD_SLOT_SHIFT;
    const uint32_t first = chance(state) % (uint32_t) info.n_spans;
    for (int32_t i = 0; i < info.n_spans; i++) {
        const int32_t k = (int32_t) ((first + (uint32_t) i) % (uint32_t) info.n_spans);
        const struct les_span * span = &info.spans[k];
        if (s->delay_us > 0) {
            usleep(chance(state) % (uint32_t) (s->delay_us + 1));
        }
        const uint64_t off = span->off + (uint64_t) id*span->stride;
        CHECK(off + span->n_bytes <= s->model->file_bytes[span->file]);
        CHECK(span->slot_off + off % LES_ALIGN + span->n_bytes <= les_model_slot_bytes(s->model->les));
        memcpy(slot_bytes_of(s, slot, span, off), s->model->file[span->file] + off, span->n_bytes);
        word |= LES_WORD_READY(k);
        les_model_publish(s->model->les, layer, id, word);
    }
}

static void * fake_sched_main(void * user) {
    struct fake_sched * s = user;
    uint64_t state = 0x9E3779B97F4A7C15ull;
    pthread_mutex_lock(&s->lock);
    while (!s->stop) {
        const int32_t key = pick_locked(s);
        if (key < 0) {
            pthread_cond_wait(&s->work, &s->lock);
            continue;
        }
        struct fake_expert * e = expert_of(s, key);
        const bool fails = key == s->fail_layer*FAKE_EXPERTS_MAX + s->fail_id;
        const int32_t slot = e->slot;
        s->n_fills++;
        pthread_mutex_unlock(&s->lock);
        if (!fails) {
            fill(s, key, slot, &state);
        }
        pthread_mutex_lock(&s->lock);
        e->queued = false;
        if (fails) {
            e->failed = true;
            if (s->fail_word & LES_WORD_FAILED) {
                les_model_set_error(s->model->les, "the read failed");
            }
            les_model_publish(s->model->les, s->fail_layer, s->fail_id, s->fail_word);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void fake_sched_init(struct fake_sched * s, struct fake_model * m, int32_t n_slots, int32_t delay_us) {
    memset(s, 0, sizeof(*s));
    s->model      = m;
    s->n_slots    = n_slots;
    s->delay_us   = delay_us;
    s->fail_layer = -1;
    s->fail_word  = LES_WORD_FAILED;
    s->n_graphs   = 1;
    s->chance     = 2463534242u + (uint64_t) n_slots;
    s->owner      = malloc((size_t) n_slots*sizeof(*s->owner));
    CHECK(s->owner);
    for (int32_t i = 0; i < n_slots; i++) {
        s->owner[i] = -1;
    }
    for (int32_t i = 0; i < FAKE_LAYERS_MAX*FAKE_EXPERTS_MAX; i++) {
        expert_of(s, i)->slot = -1;
    }
    const struct les_callbacks callbacks = fake_sched_callbacks(s);
    CHECK(les_model_open(m->les, n_slots, n_slots, &callbacks) == 0);
    CHECK(pthread_mutex_init(&s->lock, NULL) == 0 && pthread_cond_init(&s->work, NULL) == 0);
    CHECK(pthread_create(&s->thread, NULL, fake_sched_main, s) == 0);
}

void fake_sched_free(struct fake_sched * s) {
    les_model_close(s->model->les);
    pthread_mutex_lock(&s->lock);
    s->stop = true;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    CHECK(pthread_join(s->thread, NULL) == 0);
    pthread_cond_destroy(&s->work);
    pthread_mutex_destroy(&s->lock);
    free(s->owner);
}

void fake_sched_check_idle(struct fake_sched * s) {
    pthread_mutex_lock(&s->lock);
    for (int32_t key = 0; key < FAKE_LAYERS_MAX*FAKE_EXPERTS_MAX; key++) {
        const struct fake_expert * e = expert_of(s, key);
        CHECKF(e->pins == 0 && e->routed == e->released, "expert %d of layer %d", key % FAKE_EXPERTS_MAX, key/FAKE_EXPERTS_MAX);
    }
    pthread_mutex_unlock(&s->lock);
}

uint64_t fake_sched_calls(struct fake_sched * s) {
    pthread_mutex_lock(&s->lock);
    const uint64_t n = s->n_calls;
    pthread_mutex_unlock(&s->lock);
    return n;
}
