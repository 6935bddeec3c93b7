// The MoE nodes against upstream's on plain weights, bit for bit: every form of a layer, every size of pool.

#include "les-test.h"

#define N_EMBD 256

static const char * const act_names[] = { "swiglu", "geglu", "reglu", "swiglu_oai", "swiglu_clamp", "silu mul", "silu", "gelu", "squared relu" };

struct form {
    const char *   name;
    enum ggml_type gate;
    enum ggml_type up;
    enum ggml_type down;
    int32_t        n_ff;
    bool           merged;
};

// Blocks of 256 in down want n_ff to be a multiple of that.
static const struct form forms[] = {
    { "f32",            GGML_TYPE_F32,     GGML_TYPE_F32,     GGML_TYPE_F32,     192, false },
    { "f16",            GGML_TYPE_F16,     GGML_TYPE_F16,     GGML_TYPE_F16,     200, false },
    { "q8_0",           GGML_TYPE_Q8_0,    GGML_TYPE_Q8_0,    GGML_TYPE_Q8_0,    384, false },
    { "q8_0 merged",    GGML_TYPE_Q8_0,    GGML_TYPE_Q8_0,    GGML_TYPE_Q8_0,    96,  true  },
    { "q3_k",           GGML_TYPE_Q3_K,    GGML_TYPE_Q3_K,    GGML_TYPE_Q3_K,    256, false },
    { "q3_k q4_k q8_0", GGML_TYPE_Q3_K,    GGML_TYPE_Q4_K,    GGML_TYPE_Q8_0,    192, false },
    { "q8_0 f32 q4_k",  GGML_TYPE_Q8_0,    GGML_TYPE_F32,     GGML_TYPE_Q4_K,    512, false },
    { "f16 q4_k f32",   GGML_TYPE_F16,     GGML_TYPE_Q4_K,    GGML_TYPE_F32,     130, false },
    { "q4_k merged",    GGML_TYPE_Q4_K,    GGML_TYPE_Q4_K,    GGML_TYPE_F16,     320, true  },
    { "iq2_xxs",        GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XXS, 256, false },
    { "iq4_xs",         GGML_TYPE_IQ4_XS,  GGML_TYPE_IQ4_XS,  GGML_TYPE_IQ4_XS,  256, false },
    { "iq4_xs down",    GGML_TYPE_Q4_K,    GGML_TYPE_Q4_K,    GGML_TYPE_IQ4_XS,  256, false },
    { "iq2_xxs merged", GGML_TYPE_IQ2_XXS, GGML_TYPE_IQ2_XXS, GGML_TYPE_Q8_0,    160, true  },
    { "q4_k iq4_xs",    GGML_TYPE_Q4_K,    GGML_TYPE_IQ4_XS,  GGML_TYPE_Q8_0,    192, false }, // sums for gate alone
    { "q8_0 mxfp4",     GGML_TYPE_Q8_0,    GGML_TYPE_MXFP4,   GGML_TYPE_MXFP4,   320, false }, // and for up alone
    { "mxfp4",          GGML_TYPE_MXFP4,   GGML_TYPE_MXFP4,   GGML_TYPE_MXFP4,   288, false },
    { "q4_k, no gate",  FAKE_NONE,         GGML_TYPE_Q4_K,    GGML_TYPE_Q8_0,    192, false },
};

#define N_FORMS (sizeof(forms)/sizeof(forms[0]))

static struct fake_layer layer_of(const struct form * f, int32_t block, int32_t n_expert) {
    return (struct fake_layer) {
        .block = block, .n_expert = n_expert, .n_embd = N_EMBD, .n_ff = f->n_ff,
        .type = { f->gate, f->up, f->down }, .merged = f->merged,
    };
}

static bool has_panel(enum ggml_type type) {
    return type == GGML_TYPE_IQ2_XXS || type == GGML_TYPE_IQ4_XS;
}

// What the graph hook is to make of a layer of this form.
static bool is_fused(const struct form * f, const struct chain * c) {
    const bool panel = has_panel(f->gate) || has_panel(f->up) || has_panel(f->down);
    return (c->act != ACT_SILU_MUL || (f->gate == FAKE_NONE && !f->merged)) && !(panel && c->n_tokens > 1);
}

static void compare(struct fake_model * m, struct fake_sched * s, const struct form * f, const struct chain * c, uint64_t seed) {
    char what[160];
    snprintf(what, sizeof(what), "%s, %s%s, %d tokens, %d used, %d threads, %d slots", f->name, act_names[c->act], c->bias ? " with bias" : "",
             (int) c->n_tokens, (int) c->n_used, (int) c->n_threads, (int) s->n_slots);
    struct moe_graph plain, stream;
    moe_graph_init(&plain, m, c, false);
    moe_graph_init(&stream, m, c, true);
    moe_graph_input(&plain, m, seed);
    moe_graph_input(&stream, m, seed);
    for (int32_t i = 0; i < m->n_layers; i++) {
        CHECKF((stream.out[i]->op == GGML_OP_CUSTOM) == is_fused(f, c), "%s", what);
    }
    moe_graph_run(&plain);
    const uint64_t n_nodes = les_model_counters(m->les).n_nodes;
    moe_graph_run(&stream);
    const uint64_t per_layer = is_fused(f, c) ? 1 : f->gate == FAKE_NONE || f->merged ? 2 : 3;
    CHECK(les_model_counters(m->les).n_nodes == n_nodes + per_layer*(uint64_t) m->n_layers);
    CHECK(les_model_counters(m->les).n_threads == c->n_threads);
    CHECKF(!les_hook_graph_failed(stream.graph), "%s: %s", what, les_model_take_error(m->les));
    moe_graph_check_equal(&plain, &stream, what);
    fake_sched_check_idle(s);
    moe_graph_free(&plain);
    moe_graph_free(&stream);
}

// Two layers of one form, the second with the contiguous layout, streamed through a pool of n_slots.
static void with_pool(const struct form * f, int32_t n_expert, int32_t n_slots, int32_t delay_us, const struct chain * chains, int n_chains) {
    struct fake_layer layers[] = { layer_of(f, 0, n_expert), layer_of(f, 1, n_expert) };
    layers[1].contiguous = true;
    struct fake_model m;
    struct fake_sched s;
    fake_model_init(&m, layers, 2, 1234567 + (uint64_t) n_slots);
    fake_sched_init(&s, &m, n_slots, delay_us);
    for (int i = 0; i < n_chains; i++) {
        compare(&m, &s, f, &chains[i], 42 + (uint64_t) i);
    }
    fake_sched_free(&s);
    fake_model_free(&m);
}

// Without ready-first a layer waits for all its experts, unless there are fewer slots than experts: then for none.
static void whole_layers_equal_upstream_for_each_pool(void) {
    const struct chain chains[] = {
        { .act = ACT_SWIGLU, .n_tokens = 1, .n_used = 4, .n_threads = 3 },
        { .act = ACT_SWIGLU, .n_tokens = 7, .n_used = 8, .n_threads = 2 },
        { .act = ACT_SILU_MUL, .n_tokens = 2, .n_used = 2, .n_threads = 2 },
    };
    static const int32_t slots[] = { 1, 3, 8, 16 };
    for (size_t i = 0; i < sizeof(slots)/sizeof(slots[0]); i++) {
        const struct fake_layer layers[] = { layer_of(&forms[5], 0, 8), layer_of(&forms[5], 1, 8) };
        struct fake_model m;
        struct fake_sched s;
        fake_model_init(&m, layers, 2, 4711);
        fake_sched_init(&s, &m, slots[i], 1000);
        les_model_set_ready_first(m.les, false);
        for (int k = 0; k < 3; k++) {
            compare(&m, &s, &forms[5], &chains[k], 7 + (uint64_t) k);
        }
        fake_sched_free(&s);
        fake_model_free(&m);
    }
}

static void each_form_equals_upstream_for_each_width(void) {
    const struct chain chains[] = {
        { .act = ACT_SWIGLU, .n_tokens = 1,  .n_used = 1, .n_threads = 1 },
        { .act = ACT_SWIGLU, .n_tokens = 1,  .n_used = 8, .n_threads = 3 },
        { .act = ACT_SWIGLU, .n_tokens = 2,  .n_used = 2, .n_threads = 2 },
        { .act = ACT_SWIGLU, .n_tokens = 7,  .n_used = 8, .n_threads = 4 },
        { .act = ACT_SWIGLU, .n_tokens = 64, .n_used = 2, .n_threads = 2 },
        { .act = ACT_SWIGLU_OAI, .n_tokens = 1, .n_used = 4, .n_threads = 3, .bias = true },
        { .act = ACT_SWIGLU, .n_tokens = 64, .n_used = 8, .n_threads = 4, .bias = true },
        { .act = ACT_SILU_MUL, .n_tokens = 64, .n_used = 8, .n_threads = 4, .bias = true },
    };
    for (size_t i = 0; i < N_FORMS; i++) {
        with_pool(&forms[i], 12, 7, 200, chains, sizeof(chains)/sizeof(chains[0]));
    }
}

static void each_activation_equals_upstream(void) {
    for (int act = ACT_SWIGLU; act <= ACT_SILU_MUL; act++) {
        for (int bias = 0; bias < 2; bias++) {
            const struct chain chains[] = {
                { .act = (enum chain_act) act, .n_tokens = 1, .n_used = 2, .n_threads = 2, .bias = bias },
                { .act = (enum chain_act) act, .n_tokens = 7, .n_used = 2, .n_threads = 2, .bias = bias },
            };
            with_pool(&forms[2], 8, 5, 100, chains, 2); // 384: three units
            with_pool(&forms[3], 8, 5, 100, chains, 2); // merged, less than one unit
            with_pool(&forms[7], 8, 5, 100, chains, 2); // a last unit of two rows
        }
    }
    for (int act = ACT_SILU; act <= ACT_RELU_SQR; act++) {
        for (int bias = 0; bias < 2; bias++) {
            const struct chain chains[] = {
                { .act = (enum chain_act) act, .n_tokens = 1, .n_used = 2, .n_threads = 2, .bias = bias },
                { .act = (enum chain_act) act, .n_tokens = 7, .n_used = 2, .n_threads = 2, .bias = bias },
            };
            with_pool(&forms[N_FORMS - 1], 8, 5, 100, chains, 2);
        }
    }
}

static void each_pool_from_one_slot_to_all_equals_upstream(void) {
    const struct chain chains[] = {
        { .act = ACT_SWIGLU, .n_tokens = 1,  .n_used = 8, .n_threads = 2 },
        { .act = ACT_GEGLU,  .n_tokens = 7,  .n_used = 2, .n_threads = 4 },
        { .act = ACT_SWIGLU, .n_tokens = 64, .n_used = 2, .n_threads = 3 },
        { .act = ACT_SWIGLU, .n_tokens = 7,  .n_used = 8, .n_threads = 2, .bias = true },
        { .act = ACT_SILU_MUL, .n_tokens = 7, .n_used = 8, .n_threads = 2 },
    };
    static const int32_t slots[] = { 1, 2, 3, 7, 8, 9, 15, 16 };
    for (size_t i = 0; i < sizeof(slots)/sizeof(slots[0]); i++) {
        with_pool(&forms[5], 8, slots[i], 2000, chains, 5);
    }
}

// Steps of all widths through one small pool, with the slowest and the fastest scheduler.
static void many_steps_in_turn_equal_upstream(void) {
    struct chain chains[60];
    uint64_t state = 99;
    static const int32_t widths[] = { 1, 1, 1, 2, 3, 7, 8, 9 };
    for (int i = 0; i < 60; i++) {
        chains[i] = (struct chain) {
            .act       = (enum chain_act) (chance(&state) % ACT_SILU),
            .bias      = chance(&state) % 4 == 0,
            .n_tokens  = widths[chance(&state) % 8],
            .n_used    = 1 + (int32_t) (chance(&state) % 4),
            .n_threads = 1 + (int32_t) (chance(&state) % 4),
        };
    }
    with_pool(&forms[1], 16, 3, 0, chains, 60);
    with_pool(&forms[4], 16, 3, 1000, chains, 60);
}

struct shared_run {
    struct moe_graph plain;
    struct moe_graph stream;
    pthread_t        thread;
};

static void * run_many(void * user) {
    struct shared_run * r = user;
    for (int i = 0; i < 40; i++) {
        moe_graph_run(&r->stream);
        CHECK(!les_hook_graph_failed(r->stream.graph));
        moe_graph_check_equal(&r->plain, &r->stream, "two graphs at a time");
    }
    return NULL;
}

// Two contexts of one model: each node goes on as soon as any of its experts has a slot, so that neither can hold up
// the other for good, whatever they pin.
static void two_graphs_share_one_pool(void) {
    static const int32_t slots[] = { 1, 3, 9 };
    for (size_t k = 0; k < 3; k++) {
        const struct fake_layer layers[] = { layer_of(&forms[5], 0, 8), layer_of(&forms[5], 1, 8) };
        struct fake_model m;
        struct fake_sched s;
        struct shared_run r[2];
        fake_model_init(&m, layers, 2, 55);
        fake_sched_init(&s, &m, slots[k], 20);
        s.n_graphs = 2; // no graph is running
        for (int i = 0; i < 2; i++) {
            const struct chain c = { .act = ACT_SWIGLU, .n_tokens = 1 + 2*i, .n_used = 4, .n_threads = 2 };
            moe_graph_init(&r[i].plain, &m, &c, false);
            moe_graph_init(&r[i].stream, &m, &c, true);
            moe_graph_input(&r[i].plain, &m, 8 + (uint64_t) i);
            moe_graph_input(&r[i].stream, &m, 8 + (uint64_t) i);
            moe_graph_run(&r[i].plain);
        }
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_create(&r[i].thread, NULL, run_many, &r[i]) == 0);
        }
        for (int i = 0; i < 2; i++) {
            CHECK(pthread_join(r[i].thread, NULL) == 0);
            moe_graph_free(&r[i].plain);
            moe_graph_free(&r[i].stream);
        }
        fake_sched_check_idle(&s);
        fake_sched_free(&s);
        fake_model_free(&m);
    }
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(each_form_equals_upstream_for_each_width);
    RUN(each_activation_equals_upstream);
    RUN(each_pool_from_one_slot_to_all_equals_upstream);
    RUN(many_steps_in_turn_equal_upstream);
    RUN(whole_layers_equal_upstream_for_each_pool);
    RUN(two_graphs_share_one_pool);
    printf("ok\n");
    return 0;
}
