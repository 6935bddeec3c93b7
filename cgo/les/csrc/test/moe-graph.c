// Graphs of MoE layers as llama.cpp's build_moe_ffn writes them, on plain weights or on streamed ones.

#include "les-test.h"

static struct ggml_tensor * product(struct ggml_context * ctx, struct ggml_tensor * w, struct ggml_tensor * bias,
        struct ggml_tensor * x, struct ggml_tensor * ids) {
    struct ggml_tensor * y = ggml_mul_mat_id(ctx, w, x, ids);
    return bias ? ggml_add_id(ctx, y, bias, ids) : y;
}

static struct ggml_tensor * activation(struct ggml_context * ctx, enum chain_act act, struct ggml_tensor * gate, struct ggml_tensor * up) {
    switch (act) {
        case ACT_SWIGLU:       return ggml_swiglu_split(ctx, gate, up);
        case ACT_GEGLU:        return ggml_geglu_split(ctx, gate, up);
        case ACT_REGLU:        return ggml_reglu_split(ctx, gate, up);
        case ACT_SWIGLU_OAI:   return ggml_swiglu_oai(ctx, gate, up, 1.702f, 0.5f);
        case ACT_SWIGLU_CLAMP: return ggml_swiglu_clamp(ctx, gate, up, 0.25f);
        case ACT_SILU_MUL:     return ggml_mul(ctx, ggml_silu(ctx, gate), up);
        case ACT_SILU:         return ggml_silu(ctx, up);
        case ACT_GELU:         return ggml_gelu(ctx, up);
        case ACT_RELU_SQR:     return ggml_sqr(ctx, ggml_relu(ctx, up));
    }
    CHECK(false);
    return NULL;
}

static struct ggml_tensor * layer_graph(struct moe_graph * g, const struct fake_model * m, const struct chain * c, int32_t layer,
        struct ggml_tensor * x, bool stream) {
    struct ggml_tensor * const * w = stream ? m->stream[layer] : m->plain[layer];
    struct ggml_tensor * const * b = m->bias[layer];
    struct ggml_tensor * ids = g->ids[layer];
    struct ggml_context * ctx = g->ctx;
    struct ggml_tensor * up   = product(ctx, w[FAKE_UP], c->bias ? b[FAKE_UP] : NULL, x, ids);
    struct ggml_tensor * gate = NULL;
    if (m->layers[layer].merged) {
        const int64_t n_ff = up->ne[0]/2;
        gate = ggml_view_3d(ctx, up, n_ff, up->ne[1], up->ne[2], up->nb[1], up->nb[2], 0);
        up   = ggml_view_3d(ctx, up, n_ff, up->ne[1], up->ne[2], up->nb[1], up->nb[2], n_ff*up->nb[0]);
    } else if (w[FAKE_GATE]) {
        gate = product(ctx, w[FAKE_GATE], c->bias ? b[FAKE_GATE] : NULL, x, ids);
    }
    struct ggml_tensor * act  = activation(ctx, gate || c->act > ACT_SILU ? c->act : ACT_SILU, gate, up);
    struct ggml_tensor * down = ggml_mul_mat_id(ctx, w[FAKE_DOWN], act, ids);
    return stream ? les_hook_graph_moe(ctx, g->graph, down, c->gating) : down;
}

void moe_graph_init(struct moe_graph * g, const struct fake_model * m, const struct chain * c, bool stream) {
    memset(g, 0, sizeof(*g));
    struct ggml_init_params params = { .mem_size = 256*ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true };
    g->ctx     = ggml_init(params);
    g->graph   = ggml_new_graph(g->ctx);
    g->backend = ggml_backend_cpu_init();
    CHECK(g->ctx && g->graph && g->backend);
    ggml_backend_cpu_set_n_threads(g->backend, c->n_threads);
    g->x = ggml_new_tensor_3d(g->ctx, GGML_TYPE_F32, m->layers[0].n_embd, 1, c->n_tokens);
    struct ggml_tensor * x = g->x;
    for (int32_t i = 0; i < m->n_layers; i++) {
        g->ids[i] = ggml_new_tensor_2d(g->ctx, GGML_TYPE_I32, c->n_used, c->n_tokens);
        g->out[i] = layer_graph(g, m, c, i, x, stream);
        CHECK(ggml_backend_supports_op(g->backend, g->out[i]));
        ggml_build_forward_expand(g->graph, g->out[i]);
        // rows of x lie apart unless one expert is used
        x = ggml_view_3d(g->ctx, g->out[i], g->out[i]->ne[0], 1, c->n_tokens, g->out[i]->nb[1], g->out[i]->nb[2], 0);
    }
    g->buffer = ggml_backend_alloc_ctx_tensors_from_buft(g->ctx, ggml_backend_cpu_buffer_type());
    CHECK(g->buffer);
}

void moe_graph_free(struct moe_graph * g) {
    ggml_backend_buffer_free(g->buffer);
    ggml_backend_free(g->backend);
    ggml_free(g->ctx);
}

void moe_graph_input(struct moe_graph * g, const struct fake_model * m, uint64_t seed) {
    fill_floats(g->x->data, (size_t) ggml_nelements(g->x), 1.0f, &seed);
    for (int32_t i = 0; i < m->n_layers; i++) {
        const int32_t n_expert = m->layers[i].n_expert;
        const int64_t n_used   = g->ids[i]->ne[0];
        CHECK(n_used <= n_expert);
        for (int64_t t = 0; t < g->ids[i]->ne[1]; t++) {
            int32_t all[FAKE_EXPERTS_MAX];
            for (int32_t k = 0; k < n_expert; k++) {
                all[k] = k;
            }
            for (int64_t k = 0; k < n_used; k++) {
                const int64_t other = k + chance(&seed) % (uint32_t) (n_expert - k);
                const int32_t id = all[other];
                all[other] = all[k];
                all[k]     = id;
                ((int32_t *) g->ids[i]->data)[t*n_used + k] = id;
            }
        }
    }
}

void moe_graph_run(struct moe_graph * g) {
    for (int i = 0; i < ggml_graph_n_nodes(g->graph); i++) {
        struct ggml_tensor * t = ggml_graph_node(g->graph, i);
        if (!t->view_src) {
            memset(t->data, 0xA5, ggml_nbytes(t)); // what is not written shows
        }
    }
    CHECK(ggml_backend_graph_compute(g->backend, g->graph) == GGML_STATUS_SUCCESS);
}

void moe_graph_check_equal(const struct moe_graph * a, const struct moe_graph * b, const char * what) {
    for (int32_t i = 0; i < FAKE_LAYERS_MAX && a->out[i]; i++) {
        const float * x = a->out[i]->data;
        const float * y = b->out[i]->data;
        const int64_t n = ggml_nelements(a->out[i]);
        CHECK(n == ggml_nelements(b->out[i]));
        double sum = 0;
        for (int64_t k = 0; k < n; k++) {
            CHECKF(memcmp(x + k, y + k, sizeof(float)) == 0, "%s: layer %d, element %d: %.9g, %.9g", what, (int) i, (int) k, x[k], y[k]);
            sum += x[k] < 0 ? -x[k] : x[k];
        }
        CHECKF(sum > 0 && sum < 1e12, "%s: layer %d has no numbers to compare", what, (int) i); // also false for NaN
    }
}
