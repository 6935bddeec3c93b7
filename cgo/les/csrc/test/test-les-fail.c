// What goes wrong must end the step as failed, give everything back, and leave the model usable.

#include "les-test.h"

static const struct fake_layer layers[2] = {
    { .block = 0, .n_expert = 8, .n_embd = 256, .n_ff = 192, .type = { GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0 }, .router = true },
    { .block = 1, .n_expert = 8, .n_embd = 256, .n_ff = 192, .type = { GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0 }, .router = true },
};

struct rig {
    struct fake_model m;
    struct fake_sched s;
    struct moe_graph  g;
    struct moe_graph  plain;
};

static void rig_init(struct rig * r, const struct chain * c, int32_t n_slots, int32_t delay_us) {
    fake_model_init(&r->m, layers, 2, 31337);
    fake_sched_init(&r->s, &r->m, n_slots, delay_us);
    moe_graph_init(&r->g, &r->m, c, true);
    moe_graph_init(&r->plain, &r->m, c, false);
    moe_graph_input(&r->g, &r->m, 17);
    moe_graph_input(&r->plain, &r->m, 17);
    moe_graph_run(&r->plain);
}

static void rig_free(struct rig * r) {
    moe_graph_free(&r->g);
    moe_graph_free(&r->plain);
    fake_sched_free(&r->s);
    fake_model_free(&r->m);
}

static void check_works(struct rig * r) {
    moe_graph_run(&r->g);
    const char * error = les_model_take_error(r->m.les);
    CHECKF(!les_hook_graph_failed(r->g.graph), "%s", error);
    CHECKF(error[0] == 0, "%s", error);
    moe_graph_check_equal(&r->plain, &r->g, "after a failure");
    fake_sched_check_idle(&r->s);
}

static void check_fails(struct rig * r, const char * error) {
    moe_graph_run(&r->g);
    CHECK(les_hook_graph_failed(r->g.graph));
    CHECK(!les_hook_graph_failed(r->plain.graph));
    fake_sched_check_idle(&r->s);
    const char * got = les_model_take_error(r->m.les);
    CHECKF(strcmp(got, error) == 0, "%s, want %s", got, error);
    CHECK(les_model_take_error(r->m.les)[0] == 0);
}

static void set_status(struct rig * r, int32_t routed, int32_t predicted, int32_t released) {
    pthread_mutex_lock(&r->s.lock);
    r->s.status_routed    = routed;
    r->s.status_predicted = predicted;
    r->s.status_released  = released;
    pthread_mutex_unlock(&r->s.lock);
}

static void set_fault(struct rig * r, int32_t layer, int32_t id) {
    pthread_mutex_lock(&r->s.lock);
    r->s.fail_layer = layer;
    r->s.fail_id    = id;
    pthread_mutex_unlock(&r->s.lock);
}

// Chains of every kind: fused and not, narrow and wide, more slots than experts and one.
static const struct chain chains[] = {
    { .act = ACT_SWIGLU, .n_tokens = 1,  .n_used = 4, .n_threads = 1 },
    { .act = ACT_SWIGLU, .n_tokens = 1,  .n_used = 4, .n_threads = 3 },
    { .act = ACT_SILU_MUL, .n_tokens = 7, .n_used = 2, .n_threads = 2 },
    { .act = ACT_SWIGLU, .n_tokens = 64, .n_used = 2, .n_threads = 4 },
};
#define N_CHAINS ((int) (sizeof(chains)/sizeof(chains[0])))

static void failed_read_fails_the_step_and_no_more(void) {
    for (int i = 0; i < 3*N_CHAINS; i++) {
        static const int32_t slots[] = { 1, 4, 16 };
        struct rig r;
        rig_init(&r, &chains[i % N_CHAINS], slots[i/N_CHAINS], 300);
        const int32_t layer = i % 2;
        const int32_t id    = *(const int32_t *) r.g.ids[layer]->data;
        les_model_set_ready_first(r.m.les, i/2 % 2 == 0);
        set_fault(&r, layer, id);
        check_fails(&r, "the read failed");
        set_fault(&r, -1, 0);
        check_works(&r);
        check_works(&r);
        rig_free(&r);
    }
}

// A ready word without a slot, and with the first slot and the last that there are not.
static void word_of_no_slot_fails_the_step_and_no_more(void) {
    static const uint32_t numbers[] = { 0, 6, (1u << (32 - LES_WORD_SLOT_SHIFT)) - 1 };
    const uint32_t ready = LES_WORD_READY(LES_MAX_SPANS) - 1;
    for (int i = 0; i < 3*N_CHAINS; i++) {
        struct rig r;
        rig_init(&r, &chains[i % N_CHAINS], 5, 300);
        const int32_t layer = i % 2;
        r.s.fail_word = numbers[i/N_CHAINS] << LES_WORD_SLOT_SHIFT | ready; // no graph is running
        set_fault(&r, layer, *(const int32_t *) r.g.ids[layer]->data);
        check_fails(&r, "scheduler published an expert in a slot that there is not");
        set_fault(&r, -1, 0);
        check_works(&r);
        rig_free(&r);
    }
}

static void broken_callback_fails_the_step_and_no_more(void) {
    for (int i = 0; i < N_CHAINS; i++) {
        struct rig r;
        rig_init(&r, &chains[i], 5, 100);
        set_status(&r, -1, 0, 0);
        check_fails(&r, "");
        set_status(&r, 0, 0, 0);
        check_works(&r);
        set_status(&r, 0, 0, -1);
        check_fails(&r, "");
        set_status(&r, 0, 0, 0);
        check_works(&r);
        rig_free(&r);
    }
}

static void broken_lookahead_fails_the_step_and_no_more(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 2, .n_used = 2, .n_threads = 2 };
        struct rig r;
        rig_init(&r, &c, 5, 100);
        les_model_set_lookahead(r.m.les, 1, 2);
        set_status(&r, 0, -1, 0);
        check_fails(&r, "");
        set_status(&r, 0, 0, 0);
        check_works(&r);
        rig_free(&r);
    }
}

static void unknown_expert_fails_the_step_without_asking(void) {
    static const int32_t wrong[] = { -1, 8, INT32_MAX, INT32_MIN };
    for (int i = 0; i < 4*N_CHAINS; i++) {
        if (chains[i % N_CHAINS].act == ACT_SILU_MUL) {
            continue; // upstream's own add_id ends the program
        }
        struct rig r;
        rig_init(&r, &chains[i % N_CHAINS], 5, 0);
        int32_t * ids = r.g.ids[0]->data;
        const int64_t last = ggml_nelements(r.g.ids[0]) - 1;
        const int32_t right = ids[last];
        ids[last] = wrong[i/N_CHAINS];
        les_model_set_lookahead(r.m.les, 1, 0);
        check_fails(&r, "router chose an expert that the layer does not have");
        for (int32_t id = 0; id < 8; id++) {
            CHECK(r.s.experts[0][id].routed == 0);
        }
        ids[last] = right;
        check_works(&r);
        rig_free(&r);
    }
}

static void graph_before_open_fails(void) {
    struct fake_model m;
    struct fake_sched s;
    struct moe_graph g;
    fake_model_init(&m, layers, 2, 1);
    for (int i = 0; i < N_CHAINS; i++) {
        moe_graph_init(&g, &m, &chains[i], true);
        moe_graph_input(&g, &m, 3);
        moe_graph_run(&g);
        CHECK(les_hook_graph_failed(g.graph));
        CHECK(strstr(les_model_take_error(m.les), "not open"));
        moe_graph_free(&g);
    }
    moe_graph_init(&g, &m, &chains[0], true);
    moe_graph_input(&g, &m, 3);
    moe_graph_run(&g);
    fake_sched_init(&s, &m, 4, 0); // the same graph, now with the model open
    moe_graph_run(&g);
    CHECK(!les_hook_graph_failed(g.graph));
    fake_sched_check_idle(&s);
    moe_graph_free(&g);
    fake_sched_free(&s);
    fake_model_free(&m);
}

static void * run_graph(void * user) {
    struct rig * r = user;
    for (int i = 0; i < 3; i++) {
        moe_graph_run(&r->g);
    }
    return NULL;
}

static void wait_for_calls(struct rig * r, uint64_t n) {
    while (fake_sched_calls(&r->s) < n) {
        usleep(50);
    }
}

// Nothing is ever read: the step can only end because the model is closed.
static void close_ends_a_step_that_waits(void) {
    for (int i = 0; i < N_CHAINS; i++) {
        struct rig r;
        rig_init(&r, &chains[i], 5, 0);
        les_model_set_ready_first(r.m.les, i % 2 == 0);
        pthread_mutex_lock(&r.s.lock);
        r.s.stuck = true;
        pthread_mutex_unlock(&r.s.lock);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_graph, &r) == 0);
        wait_for_calls(&r, 1);
        les_model_close(r.m.les);
        const uint64_t n_calls = fake_sched_calls(&r.s);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(fake_sched_calls(&r.s) == n_calls);
        CHECK(les_hook_graph_failed(r.g.graph));
        CHECK(strstr(les_model_take_error(r.m.les), "closed"));
        rig_free(&r);
    }
}

// Close at any moment of steps that work: either way it is the last moment of a callback.
static void close_at_any_moment(void) {
    for (int i = 0; i < 48; i++) {
        struct rig r;
        rig_init(&r, &chains[i % N_CHAINS], 5, 50);
        les_model_set_lookahead(r.m.les, 1, 2);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_graph, &r) == 0);
        usleep((useconds_t) (i*61 % 3000));
        les_model_close(r.m.les);
        const uint64_t n_calls = fake_sched_calls(&r.s);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(fake_sched_calls(&r.s) == n_calls);
        rig_free(&r);
    }
}

// Fused or not, a guess that is being told when the model is closed has been told when close returns.
static void close_waits_for_a_guess_that_is_being_told(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 1, .n_used = 2, .n_threads = 2 };
        struct rig r;
        rig_init(&r, &c, 16, 0);
        r.s.guess_us = 30000; // no graph is running
        les_model_set_lookahead(r.m.les, 1, 2);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run_graph, &r) == 0);
        while (!atomic_load(&r.s.guess_begun)) {
            usleep(50);
        }
        les_model_close(r.m.les);
        CHECK(atomic_load(&r.s.guess_ended));
        CHECK(pthread_join(thread, NULL) == 0);
        rig_free(&r);
    }
}

static void errors_are_taken_once_and_the_first_stays(void) {
    struct les_model * model = les_model_new();
    CHECK(les_model_take_error(model)[0] == 0);
    les_model_set_error(model, "first");
    les_model_set_error(model, "second");
    CHECK(strcmp(les_model_take_error(model), "first") == 0);
    CHECK(les_model_take_error(model)[0] == 0);
    char text[5000];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    les_model_set_error(model, text);
    const char * taken = les_model_take_error(model);
    CHECK(strlen(taken) >= 1000 && strlen(taken) < 1024);
    les_model_unref(model);
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(errors_are_taken_once_and_the_first_stays);
    RUN(failed_read_fails_the_step_and_no_more);
    RUN(word_of_no_slot_fails_the_step_and_no_more);
    RUN(broken_callback_fails_the_step_and_no_more);
    RUN(broken_lookahead_fails_the_step_and_no_more);
    RUN(unknown_expert_fails_the_step_without_asking);
    RUN(graph_before_open_fails);
    RUN(close_ends_a_step_that_waits);
    RUN(close_at_any_moment);
    RUN(close_waits_for_a_guess_that_is_being_told);
    printf("ok\n");
    return 0;
}
