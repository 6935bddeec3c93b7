// Lookahead: what the predicted callback is told against a plain computation of the next layer's router.

#include "les-test.h"
#include "les-impl.h"

#include <math.h>

#define N_EMBD   256
#define N_EXPERT 24

// llama.cpp's gating functions, as les_hook_graph_moe gets them.
enum { GATING_SOFTMAX = 1, GATING_SIGMOID = 2, GATING_SQRT_SOFTPLUS = 4 };

static struct fake_layer layer_of(int32_t block, int32_t n_expert, bool bias, bool select) {
    return (struct fake_layer) {
        .block = block, .n_expert = n_expert, .n_embd = N_EMBD, .n_ff = 64,
        .type = { GGML_TYPE_Q8_0, GGML_TYPE_Q8_0, GGML_TYPE_F16 },
        .router = true, .router_bias = bias, .router_select = select,
    };
}

struct rig {
    struct fake_model m;
    struct fake_sched s;
    struct moe_graph  g;
};

static void rig_init(struct rig * r, const struct fake_layer layers[2], const struct chain * c) {
    fake_model_init(&r->m, layers, 2, 777);
    fake_sched_init(&r->s, &r->m, 8, 0);
    moe_graph_init(&r->g, &r->m, c, true);
    moe_graph_input(&r->g, &r->m, 5);
}

static void rig_free(struct rig * r) {
    moe_graph_free(&r->g);
    fake_sched_free(&r->s);
    fake_model_free(&r->m);
}

static void rig_run(struct rig * r) {
    r->s.n_guesses = 0; // no graph is running
    moe_graph_run(&r->g);
    CHECK(!les_hook_graph_failed(r->g.graph));
    fake_sched_check_idle(&r->s);
}

// What is left of a row after Q8_0, in which the lookahead multiplies.
static void through_q8_0(const float * in, float * out) {
    char blocks[N_EMBD*2];
    ggml_quantize_chunk(GGML_TYPE_Q8_0, in, blocks, 0, 1, N_EMBD, NULL);
    ggml_get_type_traits(GGML_TYPE_Q8_0)->to_float(blocks, out, N_EMBD);
}

static double score(const struct rig * r, int32_t layer, const float * exact_x, int32_t id, int32_t gating) {
    float w[N_EMBD];
    float x[N_EMBD];
    through_q8_0((const float *) r->m.router[layer]->data + (size_t) id*N_EMBD, w);
    through_q8_0(exact_x, x);
    double logit = r->m.router_bias[layer] ? ((const float *) r->m.router_bias[layer]->data)[id] : 0.0;
    for (int i = 0; i < N_EMBD; i++) {
        logit += (double) w[i]*(double) x[i];
    }
    if (!r->m.router_select[layer]) {
        return logit;
    }
    const double s = gating == GATING_SIGMOID ? 1/(1 + exp(-logit)) : gating == GATING_SQRT_SOFTPLUS ? sqrt(log1p(exp(logit))) : logit;
    return s + (double) ((const float *) r->m.router_select[layer]->data)[id];
}

// The k-th best expert of one token, counted from 0.
static int32_t best(const struct rig * r, int32_t layer, int32_t token, int32_t k, int32_t gating) {
    double  scores[FAKE_EXPERTS_MAX];
    int32_t id = 0;
    const int32_t n = r->m.layers[layer].n_expert;
    for (int32_t i = 0; i < n; i++) {
        scores[i] = score(r, layer, (const float *) r->g.x->data + (size_t) token*N_EMBD, i, gating);
    }
    for (int32_t j = 0; j <= k; j++) {
        id = 0;
        for (int32_t i = 1; i < n; i++) {
            id = scores[i] > scores[id] ? i : id;
        }
        scores[id] = -INFINITY;
    }
    return id;
}

static bool has_id(const int32_t * ids, int32_t n, int32_t id) {
    for (int32_t i = 0; i < n; i++) {
        if (ids[i] == id) {
            return true;
        }
    }
    return false;
}

// Every token's best, then every token's second, ... without repeats.
static void check_guess(const struct rig * r, const struct chain * c, int32_t n_guesses) {
    int32_t want[FAKE_EXPERTS_MAX];
    int32_t n = 0;
    for (int32_t k = 0; k < n_guesses; k++) {
        for (int32_t t = 0; t < c->n_tokens; t++) {
            const int32_t id = best(r, 1, t, k, c->gating);
            if (!has_id(want, n, id)) {
                want[n++] = id;
            }
        }
    }
    CHECK(r->s.n_guesses == 1);
    const struct fake_guess * g = &r->s.guesses[0];
    CHECK(g->layer == 1);
    CHECKF(g->n == n, "%d ids, want %d", (int) g->n, (int) n);
    for (int32_t i = 0; i < n; i++) {
        CHECKF(g->ids[i] == want[i], "rank %d is %d, want %d", (int) i, (int) g->ids[i], (int) want[i]);
    }
}

static void guesses_are_the_next_routers_ranked(void) {
    static const int32_t gatings[] = { GATING_SOFTMAX, GATING_SIGMOID, GATING_SQRT_SOFTPLUS };
    static const int32_t tokens[] = { 1, 2, 8 };
    for (int i = 0; i < 36; i++) {
        const struct chain c = {
            .act = i >= 18 ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = tokens[i % 3], .n_used = 2, .n_threads = 1 + i % 4,
            .gating = gatings[i/3 % 3],
        };
        const bool extra = i/9 % 2 != 0;
        const struct fake_layer layers[2] = { layer_of(0, N_EXPERT, extra, extra), layer_of(1, N_EXPERT, extra, extra) };
        struct rig r;
        rig_init(&r, layers, &c);
        CHECK((r.g.out[0]->op == GGML_OP_CUSTOM) == (c.act == ACT_SWIGLU));
        les_model_set_lookahead(r.m.les, 1, 3);
        rig_run(&r);
        check_guess(&r, &c, 3);
        rig_free(&r);
    }
}

static void same_router_is_predicted_without_fault(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 4, .n_used = 4, .n_threads = 2 };
        const struct fake_layer layers[2] = { layer_of(3, N_EXPERT, false, false), layer_of(5, N_EXPERT, false, false) };
        struct rig r;
        rig_init(&r, layers, &c);
        // the lookahead has copies of its own, made when the model was sealed
        const struct les_model * m = r.m.les;
        const struct ggml_tensor * from = &m->routers[m->layers[0].router].guess;
        memcpy(m->routers[m->layers[1].router].guess.data, from->data, from->nb[1]*N_EXPERT);
        memcpy(r.m.router[1]->data, r.m.router[0]->data, ggml_nbytes(r.m.router[0]));
        for (int32_t t = 0; t < c.n_tokens; t++) {
            for (int32_t k = 0; k < c.n_used; k++) {
                ((int32_t *) r.g.ids[0]->data)[t*c.n_used + k] = best(&r, 0, t, k, c.gating);
            }
        }
        les_model_set_lookahead(r.m.les, 1, c.n_used);
        rig_run(&r);
        const struct fake_guess * g = &r.s.guesses[0];
        int32_t n = 0;
        for (int32_t id = 0; id < N_EXPERT; id++) {
            const bool routed = has_id(r.g.ids[0]->data, c.n_tokens*c.n_used, id);
            CHECKF(has_id(g->ids, g->n, id) == routed, "expert %d", (int) id);
            n += routed;
        }
        CHECK(g->n == n);
        rig_free(&r);
    }
}

static void no_guesses_no_callback(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 1, .n_used = 2, .n_threads = 2 };
        const struct fake_layer layers[2] = { layer_of(0, N_EXPERT, false, false), layer_of(1, N_EXPERT, false, false) };
        struct rig r;
        rig_init(&r, layers, &c);
        rig_run(&r);
        CHECK(r.s.n_guesses == 0);
        les_model_set_lookahead(r.m.les, 1, 1);
        rig_run(&r);
        CHECK(r.s.n_guesses == 1 && r.s.guesses[0].n == 1);
        les_model_set_lookahead(r.m.les, 0, 5); // nobody predicts the first layer
        les_model_set_lookahead(r.m.les, 1, 0);
        rig_run(&r);
        CHECK(r.s.n_guesses == 0);
        rig_free(&r);
    }
}

static void wide_steps_are_not_predicted(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 9, .n_used = 2, .n_threads = 2 };
        const struct fake_layer layers[2] = { layer_of(0, N_EXPERT, false, false), layer_of(1, N_EXPERT, false, false) };
        struct rig r;
        rig_init(&r, layers, &c);
        les_model_set_lookahead(r.m.les, 1, 3);
        rig_run(&r);
        CHECK(r.s.n_guesses == 0);
        rig_free(&r);
    }
}

// More guesses than this layer has experts: the list of ids must hold them, and the outputs must not notice.
static void next_layer_may_have_more_experts(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 1, .n_used = 2, .n_threads = 2 };
        const struct fake_layer layers[2] = { layer_of(0, 2, false, false), layer_of(1, FAKE_EXPERTS_MAX, false, false) };
        struct rig r;
        rig_init(&r, layers, &c);
        les_model_set_lookahead(r.m.les, 1, FAKE_EXPERTS_MAX + 5);
        rig_run(&r);
        check_guess(&r, &c, FAKE_EXPERTS_MAX);
        struct moe_graph plain;
        moe_graph_init(&plain, &r.m, &c, false);
        moe_graph_input(&plain, &r.m, 5);
        moe_graph_run(&plain);
        moe_graph_check_equal(&plain, &r.g, "many guesses");
        moe_graph_free(&plain);
        rig_free(&r);
    }
}

static _Atomic int toggling;

static void * toggle(void * user) {
    struct rig * r = user;
    for (int32_t i = 0; atomic_load(&toggling); i++) {
        les_model_set_lookahead(r->m.les, 1, i % 2);
        if (i % 64 == 0) {
            usleep(1);
        }
    }
    return NULL;
}

// The scheduler turns lookahead on and off whenever it likes; all threads of a node must agree on what they saw.
static void lookahead_may_change_during_a_step(void) {
    for (int apart = 0; apart < 2; apart++) {
        const struct chain c = { .act = apart ? ACT_SILU_MUL : ACT_SWIGLU, .n_tokens = 2, .n_used = 2, .n_threads = 2 };
        const struct fake_layer layers[2] = { layer_of(0, N_EXPERT, false, false), layer_of(1, N_EXPERT, false, false) };
        struct rig r;
        struct moe_graph plain;
        rig_init(&r, layers, &c);
        moe_graph_init(&plain, &r.m, &c, false);
        moe_graph_input(&plain, &r.m, 5);
        moe_graph_run(&plain);
        pthread_t thread;
        atomic_store(&toggling, 1);
        CHECK(pthread_create(&thread, NULL, toggle, &r) == 0);
        for (int i = 0; i < 100; i++) {
            rig_run(&r);
            CHECK(r.s.n_guesses <= 1);
            moe_graph_check_equal(&plain, &r.g, "toggled");
        }
        atomic_store(&toggling, 0);
        CHECK(pthread_join(thread, NULL) == 0);
        moe_graph_free(&plain);
        rig_free(&r);
    }
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(guesses_are_the_next_routers_ranked);
    RUN(same_router_is_predicted_without_fault);
    RUN(no_guesses_no_callback);
    RUN(wide_steps_are_not_predicted);
    RUN(next_layer_may_have_more_experts);
    RUN(lookahead_may_change_during_a_step);
    printf("ok\n");
    return 0;
}
