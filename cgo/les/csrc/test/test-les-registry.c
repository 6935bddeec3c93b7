// Loading: who takes a model in, which layers come of it, what is refused, and who frees it.

#include "les-test.h"

// A load: a context of expert tensors, and the address that tells it from others.
struct load {
    struct ggml_context * ctx;
    ggml_backend_buffer_t buffer;
};

static ggml_backend_dev_t cpu(void) {
    return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
}

static void load_begin(struct load * l) {
    struct ggml_init_params params = { .mem_size = 64*ggml_tensor_overhead(), .no_alloc = true };
    l->ctx    = ggml_init(params);
    l->buffer = NULL;
    CHECK(l->ctx);
}

static struct ggml_tensor * load_tensor(struct load * l, const char * name, int64_t n_expert) {
    struct ggml_tensor * t = ggml_new_tensor_3d(l->ctx, GGML_TYPE_F32, 32, 8, n_expert);
    ggml_set_name(t, name);
    return t;
}

// Asks for each tensor's buffer type as the loader does. False where LES takes none.
static bool load_alloc(struct load * l) {
    ggml_backend_buffer_type_t buft = NULL;
    for (struct ggml_tensor * t = ggml_get_first_tensor(l->ctx); t; t = ggml_get_next_tensor(l->ctx, t)) {
        ggml_backend_buffer_type_t one = les_hook_weight_buft(l, t, cpu());
        CHECK(t == ggml_get_first_tensor(l->ctx) || one == buft);
        buft = one;
    }
    if (!buft) {
        return false;
    }
    l->buffer = ggml_backend_alloc_ctx_tensors_from_buft(l->ctx, buft);
    CHECK(l->buffer);
    return true;
}

static void load_data(struct load * l) {
    uint64_t off = 40;
    for (struct ggml_tensor * t = ggml_get_first_tensor(l->ctx); t; t = ggml_get_next_tensor(l->ctx, t)) {
        CHECK(les_hook_is_streamed(t));
        CHECK(les_hook_weight_data(l, t, 0, off, 0));
        off += ggml_nbytes(t) + 24;
    }
}

static void load_end(struct load * l) {
    ggml_backend_buffer_free(l->buffer);
    ggml_free(l->ctx);
}

// Loads tensors of these names (NULL ends them) and returns the model, not yet sealed.
static struct les_model * load_names(struct load * l, const char * const * names, const int64_t * n_expert) {
    struct les_model * model = les_model_new();
    load_begin(l);
    for (int i = 0; names[i]; i++) {
        load_tensor(l, names[i], n_expert ? n_expert[i] : 4);
    }
    CHECK(les_model_set_pending(model) == 0);
    CHECK(load_alloc(l));
    load_data(l);
    return model;
}

static void check_error(struct les_model * model, const char * part) {
    const char * error = les_model_take_error(model);
    CHECKF(strstr(error, part), "%s, want %s", error, part);
}

static void check_open_refused(struct les_model * model) {
    const struct les_callbacks none = { 0 };
    CHECK(les_model_open(model, 4, 4, &none) == -1);
    check_error(model, "les_model_open");
}

static const char * const two_blocks[] = {
    "blk.0.ffn_down_exps.weight", "blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight",
    "blk.1.ffn_down_exps.weight", "blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight", NULL
};

static void layers_have_their_spans_in_order_of_use(void) {
    struct load l;
    struct les_model * model = load_names(&l, two_blocks, NULL);
    CHECK(les_model_seal(model) == 2 && les_model_n_layers(model) == 2);
    const uint64_t n_bytes = 32*8*sizeof(float);
    for (int32_t i = 0; i < 2; i++) {
        const struct les_layer_info info = les_model_layer(model, i);
        CHECK(info.block == i && info.n_expert == 4 && info.n_spans == 3);
        const uint64_t first = 40 + (uint64_t) i*3*(4*n_bytes + 24);
        static const uint64_t place[] = { 1, 2, 0 }; // gate, up, down; the file has down first
        for (int k = 0; k < 3; k++) {
            CHECK(info.spans[k].off == first + place[k]*(4*n_bytes + 24));
            CHECK(info.spans[k].stride == n_bytes && info.spans[k].n_bytes == n_bytes);
            CHECK(info.spans[k].slot_off % LES_ALIGN == 0);
            for (uint64_t e = 0; e < 4; e++) { // no expert's bytes reach into the next span, wherever its file has them
                const uint64_t end = info.spans[k].slot_off + (info.spans[k].off + e*n_bytes) % LES_ALIGN + n_bytes;
                CHECK(end <= (k < 2 ? info.spans[k + 1].slot_off : les_model_slot_bytes(model)));
            }
        }
    }
    les_model_unref(model);
    load_end(&l);
}

static void two_loads_in_turn_have_a_model_each(void) {
    struct load a, b;
    struct les_model * first  = load_names(&a, two_blocks, NULL);
    CHECK(les_model_seal(first) == 2);
    static const char * const one[] = { "blk.0.ffn_gate_up_exps.weight", "blk.0.ffn_down_exps.weight", NULL };
    struct les_model * second = load_names(&b, one, NULL);
    CHECK(les_model_seal(second) == 1);
    CHECK(les_model_n_layers(first) == 2 && les_model_layer(second, 0).n_spans == 2);
    les_model_unref(first);
    load_end(&b);
    load_end(&a);
    les_model_unref(second);
}

static void unused_offer_can_be_withdrawn(void) {
    struct les_model * model = les_model_new();
    struct load dense, moe;
    les_model_set_pending(model);
    load_begin(&dense);
    load_tensor(&dense, "blk.0.ffn_up.weight", 1); // no experts: the offer stays
    CHECK(!load_alloc(&dense));
    CHECK(les_model_seal(model) == 0);
    les_model_set_pending(NULL);
    load_begin(&moe);
    struct ggml_tensor * t = load_tensor(&moe, "blk.0.ffn_up_exps.weight", 4);
    CHECK(!load_alloc(&moe));
    CHECK(!les_hook_weight_data(&moe, t, 0, 0, 0));
    check_open_refused(model);
    les_model_unref(model);
    load_end(&dense);
    load_end(&moe);
}

static void offer_ends_with_its_model(void) {
    struct les_model * model = les_model_new();
    les_model_set_pending(model);
    les_model_unref(model);
    struct load l;
    load_begin(&l);
    load_tensor(&l, "blk.0.ffn_up_exps.weight", 4);
    CHECK(!load_alloc(&l));
    load_end(&l);
}

// A second load has experts too, but the first one has taken the only offer.
static void other_load_is_left_alone(void) {
    struct load a, b;
    struct les_model * model = load_names(&a, two_blocks, NULL);
    load_begin(&b);
    struct ggml_tensor * t = load_tensor(&b, "blk.0.ffn_up_exps.weight", 4);
    CHECK(!load_alloc(&b));
    CHECK(!les_hook_weight_data(&b, t, 0, 0, 0));
    CHECK(les_model_seal(model) == 2);
    CHECK(!les_hook_weight_data(&a, ggml_get_first_tensor(a.ctx), 0, 0, 0)); // sealed: nobody is loading
    load_end(&a);
    load_end(&b);
    les_model_unref(model);
}

// A second offer is refused until the first load is sealed, and takes nothing away from it.
static void second_offer_waits_for_the_seal_of_the_first(void) {
    struct load a, b;
    struct les_model * first  = les_model_new();
    struct les_model * second = les_model_new();
    CHECK(les_model_set_pending(first) == 0);
    CHECK(les_model_set_pending(first) == 0);
    CHECK(les_model_set_pending(second) == -1); // the first is offered
    check_error(second, "another load");
    load_begin(&a);
    load_tensor(&a, "blk.0.ffn_up_exps.weight", 4);
    CHECK(load_alloc(&a));
    CHECK(les_model_set_pending(second) == -1); // the first is being loaded
    check_error(second, "another load");
    load_begin(&b);
    load_tensor(&b, "blk.0.ffn_up_exps.weight", 4);
    CHECK(!load_alloc(&b));
    load_data(&a);
    CHECK(les_model_seal(first) == 1);
    CHECK(les_model_set_pending(second) == 0);
    CHECK(load_alloc(&b));
    load_data(&b);
    CHECK(les_model_seal(second) == 1);
    les_model_unref(first);
    les_model_unref(second);
    load_end(&a);
    load_end(&b);
}

static void expert_counts_must_agree_in_a_layer(void) {
    static const int64_t n_expert[] = { 4, 4, 4, 4, 6, 4 };
    struct load l;
    struct les_model * model = load_names(&l, two_blocks, n_expert);
    CHECK(les_model_seal(model) == -1);
    check_error(model, "experts, its layer has");
    check_open_refused(model);
    les_model_unref(model);
    load_end(&l);
}

static void more_than_three_spans_are_refused(void) {
    static const char * const names[] = {
        "blk.7.ffn_gate_exps.weight", "blk.7.ffn_up_exps.weight", "blk.7.ffn_down_exps.weight", "blk.7.ffn_norm_exps.weight", NULL
    };
    struct load l;
    struct les_model * model = load_names(&l, names, NULL);
    CHECK(les_model_seal(model) == -1);
    check_error(model, "more than 3 expert tensors");
    check_open_refused(model);
    les_model_unref(model);
    load_end(&l);
}

static void seal_without_data_is_refused(void) {
    struct load l;
    load_begin(&l);
    load_tensor(&l, "blk.0.ffn_up_exps.weight", 4);
    struct ggml_tensor * last = load_tensor(&l, "blk.0.ffn_down_exps.weight", 4);
    struct les_model * model = les_model_new();
    les_model_set_pending(model);
    CHECK(load_alloc(&l));
    CHECK(les_hook_weight_data(&l, last, 0, 0, 0));
    CHECK(les_model_seal(model) == -1);
    check_error(model, "blk.0.ffn_up_exps.weight: the loader has not said");
    check_open_refused(model);
    les_model_unref(model);
    load_end(&l);
}

static void second_seal_is_refused(void) {
    struct load l;
    struct les_model * model = load_names(&l, two_blocks, NULL);
    CHECK(les_model_seal(model) == 2);
    CHECK(les_model_seal(model) == -1);
    check_error(model, "sealed before");
    CHECK(les_model_n_layers(model) == 2);
    les_model_unref(model);
    load_end(&l);
}

// What has another form is a layer of its own, even where long names differ at their ends only.
static void unknown_names_are_layers_of_their_own(void) {
    static const char * const names[] = {
        "experts_of_some_unheard_of_architecture.0", "experts_of_some_unheard_of_architecture.1",
        "experts_of_some_unheard_of_architecture.2", "blk.x.ffn_up_exps.weight", "blk.3.attn_exps.weight", NULL
    };
    struct load l;
    struct les_model * model = load_names(&l, names, NULL);
    CHECK(les_model_seal(model) == 5);
    for (int32_t i = 0; i < 5; i++) {
        CHECK(les_model_layer(model, i).block == -1 && les_model_layer(model, i).n_spans == 1);
    }
    les_model_unref(model);
    load_end(&l);
}

static void kinds_of_one_block_are_layers_of_their_own(void) {
    static const char * const names[] = {
        "blk.2.ffn_up_exps.weight", "blk.2.ffn_down_exps.weight", "blk.2.ffn_gate_exps.weight",
        "blk.2.ffn_up_chexps.weight", "blk.2.ffn_down_chexps.weight", "blk.2.ffn_gate_chexps.weight", NULL
    };
    static const int64_t n_expert[] = { 8, 8, 8, 4, 4, 4 };
    struct load l;
    struct les_model * model = load_names(&l, names, n_expert);
    CHECK(les_model_seal(model) == 2);
    for (int32_t i = 0; i < 2; i++) {
        CHECK(les_model_layer(model, i).block == 2 && les_model_layer(model, i).n_spans == 3);
    }
    CHECK(les_model_layer(model, 0).n_expert + les_model_layer(model, 1).n_expert == 12);
    les_model_unref(model);
    load_end(&l);
}

// Blocks sort by number: 10 after 9, and a block of a next-token head after the last.
static void blocks_are_in_order_with_gaps(void) {
    static const char * const names[] = {
        "blk.61.ffn_up_exps.weight", "blk.10.ffn_up_exps.weight", "blk.9.ffn_up_exps.weight",
        "blk.61.ffn_down_exps.weight", "blk.9.ffn_down_exps.weight", "blk.10.ffn_down_exps.weight", NULL
    };
    struct load l;
    struct les_model * model = load_names(&l, names, NULL);
    CHECK(les_model_seal(model) == 3);
    CHECK(les_model_layer(model, 0).block == 9 && les_model_layer(model, 1).block == 10 && les_model_layer(model, 2).block == 61);
    les_model_unref(model);
    load_end(&l);
}

// A model with three slots that are full of ones, and room for five.
static void slots_come_and_go(struct les_model * model) {
    const size_t    n_bytes = (size_t) les_model_slot_bytes(model);
    const uint8_t * arena   = les_model_arena(model);
    CHECK(les_model_resize(model, 0) == -1);
    check_error(model, "0 slots of 5");
    CHECK(les_model_resize(model, 6) == -1);
    check_error(model, "6 slots of 5");
    CHECK(les_model_resize(model, 1) == 0);
    CHECK(les_model_resize(model, 5) == 0);
    CHECK(les_model_arena(model) == arena);
    for (size_t i = 0; i < 5*n_bytes; i += 64) {
        CHECK(arena[i] == (i < n_bytes));
    }
    memset(les_model_arena(model), 1, 5*n_bytes);
    les_model_populate(model, 0, 5*n_bytes);
}

static void open_wants_slots_and_happens_once(void) {
    const struct les_callbacks none = { 0 };
    struct load l;
    struct les_model * model = load_names(&l, two_blocks, NULL);
    check_open_refused(model); // not sealed
    CHECK(les_model_seal(model) == 2);
    CHECK(les_model_open(model, 0, 3, &none) == -1);
    check_error(model, "0 slots");
    CHECK(les_model_open(model, 4, 3, &none) == -1);
    check_error(model, "4 slots of 3");
    CHECK(les_model_open(model, 1 << 24, 1 << 24, &none) == -1); // a word has 24 bits for the slot
    check_error(model, "slots");
    CHECK(les_model_resize(model, 1) == -1);
    check_error(model, "les_model_resize");
    CHECK(les_model_arena(model) == NULL);
    CHECK(les_model_open(model, 3, 5, &none) == 0);
    CHECK((uintptr_t) les_model_arena(model) % LES_ALIGN == 0);
    memset(les_model_arena(model), 1, 3*les_model_slot_bytes(model));
    slots_come_and_go(model);
    check_open_refused(model);
    les_model_close(model);
    les_model_close(model);
    check_open_refused(model);
    load_end(&l);
    les_model_unref(model);
}

static void * hammer(void * user) {
    struct load l; // a load without an offer, while others come and go
    (void) user;
    load_begin(&l);
    struct ggml_tensor * t = load_tensor(&l, "blk.0.ffn_up_exps.weight", 4);
    for (int i = 0; i < 20000; i++) {
        CHECK(!les_hook_weight_data(&l, t, 0, 0, 0));
    }
    load_end(&l);
    return NULL;
}

static void load_without_offer_runs_beside_others(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hammer, NULL) == 0);
    for (int i = 0; i < 200; i++) {
        struct load l;
        struct les_model * model = load_names(&l, two_blocks, NULL);
        CHECK(les_model_seal(model) == 2);
        les_model_unref(model);
        load_end(&l);
    }
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(layers_have_their_spans_in_order_of_use);
    RUN(two_loads_in_turn_have_a_model_each);
    RUN(unused_offer_can_be_withdrawn);
    RUN(offer_ends_with_its_model);
    RUN(other_load_is_left_alone);
    RUN(second_offer_waits_for_the_seal_of_the_first);
    RUN(expert_counts_must_agree_in_a_layer);
    RUN(more_than_three_spans_are_refused);
    RUN(seal_without_data_is_refused);
    RUN(second_seal_is_refused);
    RUN(unknown_names_are_layers_of_their_own);
    RUN(kinds_of_one_block_are_layers_of_their_own);
    RUN(blocks_are_in_order_with_gaps);
    RUN(open_wants_slots_and_happens_once);
    RUN(load_without_offer_runs_beside_others);
    printf("ok\n");
    return 0;
}
