// A model of MoE layers without llama.cpp, taken in through the hooks that llama.cpp's loader calls.

#include "les-test.h"

static const char * const fake_names[FAKE_ROLES] = { "gate", "up", "down" };

void fill_floats(float * data, size_t n, float scale, uint64_t * state) {
    for (size_t i = 0; i < n; i++) {
        data[i] = scale*chance_float(state);
    }
}

// Where a block's scales of 16 bits are, -1 for none; everything else in a block may be any bits at all.
static void block_scales(enum ggml_type type, int32_t at[2]) {
    at[0] = 0;
    at[1] = -1;
    switch (type) {
        case GGML_TYPE_Q8_0: case GGML_TYPE_IQ2_XXS: case GGML_TYPE_IQ4_XS: return;
        case GGML_TYPE_Q4_K: at[1] = 2;   return;
        case GGML_TYPE_Q3_K: at[0] = 108; return;
        default: CHECKF(false, "no filler for %s", ggml_type_name(type));
    }
}

static void fill_weights(uint8_t * data, enum ggml_type type, size_t n_bytes, uint64_t * state) {
    if (type == GGML_TYPE_F32) {
        fill_floats((float *) data, n_bytes/sizeof(float), 0.1f, state);
        return;
    }
    if (type == GGML_TYPE_F16) {
        for (size_t i = 0; i < n_bytes/sizeof(ggml_fp16_t); i++) {
            ((ggml_fp16_t *) data)[i] = ggml_fp32_to_fp16(0.1f*chance_float(state));
        }
        return;
    }
    for (size_t i = 0; i < n_bytes; i += 4) {
        const uint32_t bits = chance(state);
        memcpy(data + i, &bits, n_bytes - i < 4 ? n_bytes - i : 4);
    }
    const size_t size = ggml_type_size(type);
    if (type == GGML_TYPE_MXFP4) { // the scale is a power of two, its exponent the first byte
        for (size_t i = 0; i < n_bytes; i += size) {
            data[i] = (uint8_t) (120 + chance(state) % 4);
        }
        return;
    }
    int32_t at[2];
    block_scales(type, at);
    const float  most = type == GGML_TYPE_IQ4_XS ? 0.00005f : 0.001f; // its other factors are the largest
    for (size_t i = 0; i < n_bytes; i += size) {
        for (int k = 0; k < 2 && at[k] >= 0; k++) {
            const ggml_fp16_t scale = ggml_fp32_to_fp16(most*chance_float(state));
            memcpy(data + i + at[k], &scale, sizeof(scale));
        }
    }
}

static struct ggml_context * context_new(size_t n_tensors) {
    struct ggml_init_params params = { .mem_size = n_tensors*ggml_tensor_overhead(), .no_alloc = true };
    struct ggml_context * ctx = ggml_init(params);
    CHECK(ctx);
    return ctx;
}

static struct ggml_tensor * fake_experts(struct ggml_context * ctx, const struct fake_layer * l, enum fake_role role) {
    if (l->type[role] == FAKE_NONE || (l->merged && role == FAKE_GATE)) {
        return NULL;
    }
    const bool merged = l->merged && role == FAKE_UP;
    const int64_t n_in  = role == FAKE_DOWN ? l->n_ff : l->n_embd;
    const int64_t n_out = role == FAKE_DOWN ? l->n_embd : merged ? 2*l->n_ff : l->n_ff;
    struct ggml_tensor * t = ggml_new_tensor_3d(ctx, l->type[role], n_in, n_out, l->n_expert);
    ggml_format_name(t, "blk.%d.ffn_%s_exps.weight", (int) l->block, merged ? "gate_up" : fake_names[role]);
    return t;
}

static struct ggml_tensor * fake_floats(struct ggml_context * ctx, int32_t block, const char * name, int64_t ne0, int64_t ne1) {
    struct ggml_tensor * t = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, ne0, ne1);
    ggml_format_name(t, "blk.%d.%s", (int) block, name);
    return t;
}

static void fake_model_tensors(struct fake_model * m) {
    const size_t n_tensors = (size_t) m->n_layers*(2*FAKE_ROLES + 3);
    m->ctx_plain  = context_new(n_tensors);
    m->ctx_stream = context_new(n_tensors);
    for (int32_t i = 0; i < m->n_layers; i++) {
        const struct fake_layer * l = &m->layers[i];
        for (int r = 0; r < FAKE_ROLES; r++) {
            m->plain[i][r]  = fake_experts(m->ctx_plain, l, (enum fake_role) r);
            m->stream[i][r] = fake_experts(m->ctx_stream, l, (enum fake_role) r);
            if (m->plain[i][r]) {
                char name[64];
                snprintf(name, sizeof(name), "ffn_%s_exps.bias", fake_names[r]);
                m->bias[i][r] = fake_floats(m->ctx_plain, l->block, name, m->plain[i][r]->ne[1], l->n_expert);
            }
        }
        m->router[i]        = l->router        ? fake_floats(m->ctx_plain, l->block, "ffn_gate_inp.weight", l->n_embd, l->n_expert) : NULL;
        m->router_bias[i]   = l->router_bias   ? fake_floats(m->ctx_plain, l->block, "ffn_gate_inp.bias", l->n_expert, 1) : NULL;
        m->router_select[i] = l->router_select ? fake_floats(m->ctx_plain, l->block, "exp_probs_b.bias", l->n_expert, 1) : NULL;
    }
}

// Offers the model to a load, and lets that load put its expert tensors into the LES buffer.
static void fake_model_offer(struct fake_model * m) {
    ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    m->les = les_model_new();
    CHECK(m->les);
    CHECK(les_model_set_pending(m->les) == 0);
    ggml_backend_buffer_type_t buft = NULL;
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->ctx_stream); t; t = ggml_get_next_tensor(m->ctx_stream, t)) {
        buft = les_hook_weight_buft(m, t, cpu);
        CHECK(buft);
        CHECK(strcmp(ggml_backend_buft_name(buft), "LES") == 0);
    }
    m->buf_stream = ggml_backend_alloc_ctx_tensors_from_buft(m->ctx_stream, buft);
    CHECK(m->buf_stream);
}

// Fills the experts of one tensor, stride apart in their file, and tells the loader hook.
static void fake_tensor_fill(struct fake_model * m, int32_t layer, int role, size_t off, size_t stride, uint64_t * state) {
    struct ggml_tensor * t = m->stream[layer][role];
    uint8_t * plain = m->plain[layer][role]->data;
    const int f = layer % 2;
    fill_weights(plain, t->type, ggml_nbytes(t), state);
    for (int64_t e = 0; e < t->ne[2]; e++) {
        memcpy(m->file[f] + off + (size_t) e*stride, plain + (size_t) e*t->nb[2], t->nb[2]);
    }
    CHECK(les_hook_weight_data(m, t, f, off, m->layers[layer].contiguous ? stride : 0));
}

static size_t round_up(size_t n, size_t align) {
    return (n + align - 1)/align*align;
}

// The extents of a layer behind the given place: matrices in order of use, each on a multiple of 32. Returns their end.
static size_t fake_extents_place(struct fake_model * m, int32_t layer, size_t end, bool fill, uint64_t * state) {
    const size_t first = round_up(end, LES_ALIGN);
    size_t at[FAKE_ROLES];
    size_t n_bytes = 0;
    for (int r = 0; r < FAKE_ROLES; r++) {
        at[r]   = round_up(n_bytes, 32);
        n_bytes = m->stream[layer][r] ? at[r] + m->stream[layer][r]->nb[2] : n_bytes;
    }
    const size_t stride = round_up(n_bytes, LES_ALIGN);
    for (int r = 0; r < FAKE_ROLES && fill; r++) {
        if (m->stream[layer][r]) {
            fake_tensor_fill(m, layer, r, first + at[r], stride, state);
        }
    }
    return first + (size_t) m->layers[layer].n_expert*stride;
}

// The tensors of a layer behind the given place, down first, with gaps. Returns their end.
static size_t fake_tensors_place(struct fake_model * m, int32_t layer, size_t end, bool fill, uint64_t * gaps, uint64_t * state) {
    for (int r = FAKE_ROLES - 1; r >= 0; r--) {
        struct ggml_tensor * t = m->stream[layer][r];
        if (!t) {
            continue;
        }
        const size_t off = end + 8*(chance(gaps) % 600);
        end = off + ggml_nbytes(t);
        if (fill) {
            fake_tensor_fill(m, layer, r, off, t->nb[2], state);
        }
    }
    return end;
}

static void fake_model_place(struct fake_model * m, uint64_t * state) {
    for (int pass = 0; pass < 2; pass++) { // sizes first, then bytes
        size_t end[2] = { 8, 4096 - 8 };
        uint64_t gaps = 88172645463325252ull;
        for (int32_t i = 0; i < m->n_layers; i++) {
            end[i % 2] = m->layers[i].contiguous ? fake_extents_place(m, i, end[i % 2], pass == 1, state) :
                                                   fake_tensors_place(m, i, end[i % 2], pass == 1, &gaps, state);
        }
        for (int f = 0; f < 2 && pass == 0; f++) {
            m->file[f]       = calloc(1, end[f]);
            m->file_bytes[f] = end[f];
            CHECK(m->file[f]);
        }
    }
}

void fake_model_init(struct fake_model * m, const struct fake_layer * layers, int32_t n_layers, uint64_t seed) {
    CHECK(n_layers <= FAKE_LAYERS_MAX);
    memset(m, 0, sizeof(*m));
    m->n_layers = n_layers;
    memcpy(m->layers, layers, (size_t) n_layers*sizeof(*layers));
    fake_model_tensors(m);
    m->buf_plain = ggml_backend_alloc_ctx_tensors_from_buft(m->ctx_plain, ggml_backend_cpu_buffer_type());
    CHECK(m->buf_plain);
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->ctx_plain); t; t = ggml_get_next_tensor(m->ctx_plain, t)) {
        if (t->type == GGML_TYPE_F32) {
            fill_floats(t->data, (size_t) ggml_nelements(t), 0.1f, &seed);
        }
    }
    fake_model_offer(m);
    fake_model_place(m, &seed);
    for (struct ggml_tensor * t = ggml_get_first_tensor(m->ctx_plain); t; t = ggml_get_next_tensor(m->ctx_plain, t)) {
        CHECK(!les_hook_weight_data(m, t, 0, 0, 0)); // read by the loader as ever; routers are noted
    }
    CHECK(les_model_seal(m->les) == n_layers);
}

void fake_model_free(struct fake_model * m) {
    les_model_unref(m->les);
    ggml_backend_buffer_free(m->buf_stream);
    ggml_backend_buffer_free(m->buf_plain);
    ggml_free(m->ctx_stream);
    ggml_free(m->ctx_plain);
    free(m->file[0]);
    free(m->file[1]);
}
