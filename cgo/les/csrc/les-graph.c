// The graph seam: turns the nodes of one MoE layer into a fused node plus lookahead where their form is known.
// What is not recognised stays as upstream built it; its MUL_MAT_ID nodes then run on the slots one by one.

#include "les-impl.h"

#include "ggml-backend.h"
#include "ggml-impl.h"

#include <string.h>

bool les_hook_is_streamed(const struct ggml_tensor * t) {
    return t && t->extra && t->buffer && strcmp(ggml_backend_buft_name(ggml_backend_buffer_get_type(t->buffer)), "LES") == 0;
}

// The CPU backend recognises these nodes by the pointer and runs its own code; they are never called.
void les_op_moe(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    GGML_UNUSED(dst); GGML_UNUSED(ith); GGML_UNUSED(nth); GGML_UNUSED(userdata);
    GGML_ABORT("LES node on a backend without LES");
}

void les_op_predict(struct ggml_tensor * dst, int ith, int nth, void * userdata) {
    les_op_moe(dst, ith, nth, userdata);
}

bool les_op_is(const struct ggml_tensor * t, bool * fused) {
    if (t->op != GGML_OP_CUSTOM) {
        return false;
    }
    struct ggml_custom_op_params p;
    memcpy(&p, t->op_params, sizeof(p));
    *fused = p.fun == les_op_moe;
    return *fused || p.fun == les_op_predict;
}

// What a fused node is made of.
struct les_parts {
    struct ggml_tensor * x;
    struct ggml_tensor * ids;
    struct ggml_tensor * down;
    struct ggml_tensor * up;   // weights, or gate and up merged
    struct ggml_tensor * gate; // NULL when merged
    struct ggml_tensor * up_bias;   // [rows of up, experts], NULL without
    struct ggml_tensor * gate_bias; // NULL without or when merged
    int32_t              act[4]; // parameters of the activation: those of a gated one, or the unary op and whether it is squared
};

static bool les_is_plain_product(const struct ggml_tensor * t, int32_t layer) {
    if (t->op != GGML_OP_MUL_MAT_ID || !les_hook_is_streamed(t->src[0]) || les_weight_of(t->src[0])->layer != layer) {
        return false;
    }
    for (size_t i = 0; i < sizeof(t->op_params)/sizeof(t->op_params[0]); i++) {
        if (t->op_params[i] != 0) {
            return false; // a wish for precision or a hint that the fused node does not know
        }
    }
    return t->src[1]->type == GGML_TYPE_F32;
}

// The product whose result is t, behind a bias for each expert if there is one. A bias that the fused node could not add
// is left in place, so that t is no product.
static struct ggml_tensor * les_unbiased(struct ggml_tensor * t, struct ggml_tensor ** bias) {
    *bias = NULL;
    if (t->op != GGML_OP_ADD_ID || t->src[0]->op != GGML_OP_MUL_MAT_ID || t->src[2] != t->src[0]->src[2]) {
        return t;
    }
    struct ggml_tensor * b = t->src[1];
    if (b->type != GGML_TYPE_F32 || b->nb[0] != sizeof(float) || b->ne[1] != t->src[0]->src[0]->ne[2] || !b->buffer ||
        !ggml_backend_buffer_is_host(b->buffer)) {
        return t;
    }
    *bias = b;
    return t->src[0];
}

// Types whose batched product has a kernel of its own, with results of its own.
static bool les_has_panel_kernel(enum ggml_type type) {
    switch (type) {
        case GGML_TYPE_IQ2_XXS: case GGML_TYPE_IQ2_XS: case GGML_TYPE_IQ2_S: case GGML_TYPE_IQ3_XXS:
        case GGML_TYPE_IQ3_S:   case GGML_TYPE_IQ1_S:  case GGML_TYPE_IQ1_M: case GGML_TYPE_IQ4_XS:
            return true;
        default:
            return false;
    }
}

// Gate and up, merged or apart, below a gated activation.
static bool les_match_gated(const struct ggml_tensor * act, int32_t layer, struct les_parts * parts) {
    struct ggml_tensor * g = act->src[0];
    struct ggml_tensor * u = act->src[1];
    if (!g || !u) {
        return false;
    }
    memcpy(parts->act, act->op_params, sizeof(parts->act));
    if (g->op == GGML_OP_VIEW && u->op == GGML_OP_VIEW && g->view_src == u->view_src) {
        struct ggml_tensor * both = les_unbiased(g->view_src, &parts->up_bias);
        if (!les_is_plain_product(both, layer) || g->view_offs != 0 || u->view_offs != act->ne[0]*sizeof(float) ||
            both->ne[0] != 2*act->ne[0]) {
            return false;
        }
        g = u = both;
    } else {
        g = les_unbiased(g, &parts->gate_bias);
        u = les_unbiased(u, &parts->up_bias);
        if (!les_is_plain_product(g, layer) || !les_is_plain_product(u, layer) || g->src[1] != u->src[1]) {
            return false;
        }
        parts->gate = g->src[0];
    }
    parts->up = u->src[0];
    parts->x  = u->src[1];
    return g->src[2] == parts->ids && u->src[2] == parts->ids;
}

// Up alone below an activation of it, which may be squared.
static bool les_match_ungated(const struct ggml_tensor * act, int32_t layer, struct les_parts * parts) {
    const struct ggml_tensor * unary = act->op == GGML_OP_SQR ? act->src[0] : act;
    if (unary->op != GGML_OP_UNARY) {
        return false;
    }
    parts->act[0] = ggml_get_unary_op(unary);
    parts->act[1] = unary != act;
    if (parts->act[0] != GGML_UNARY_OP_RELU && parts->act[0] != GGML_UNARY_OP_SILU && parts->act[0] != GGML_UNARY_OP_GELU) {
        return false;
    }
    struct ggml_tensor * u = les_unbiased(unary->src[0], &parts->up_bias);
    if (!les_is_plain_product(u, layer)) {
        return false;
    }
    parts->up = u->src[0];
    parts->x  = u->src[1];
    return u->src[2] == parts->ids;
}

static bool les_match(struct ggml_tensor * down, struct les_parts * parts) {
    const int32_t layer = les_weight_of(down->src[0])->layer;
    const struct ggml_tensor * act = down->src[1];
    *parts = (struct les_parts) { .ids = down->src[2], .down = down->src[0] };
    if (!les_is_plain_product(down, layer) || act->type != GGML_TYPE_F32 ||
        !(act->op == GGML_OP_GLU ? les_match_gated(act, layer, parts) : les_match_ungated(act, layer, parts))) {
        return false;
    }
    const bool panel = les_has_panel_kernel(parts->up->type) || les_has_panel_kernel(parts->down->type) ||
                       (parts->gate && les_has_panel_kernel(parts->gate->type));
    return !(panel && parts->ids->ne[1] > 1);
}

// The input of the layer's experts: that of the first product found below a node.
static struct ggml_tensor * les_find_input(struct ggml_tensor * t, int depth) {
    if (!t || depth == 0) {
        return NULL;
    }
    if (t->op == GGML_OP_MUL_MAT_ID && les_hook_is_streamed(t->src[0])) {
        struct ggml_tensor * deeper = les_find_input(t->src[1], depth - 1);
        return deeper ? deeper : t->src[1];
    }
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * x = les_find_input(t->src[i], depth - 1);
        if (x) {
            return x;
        }
    }
    return NULL;
}

// True if thread-side code may read a router's vector as it is; a missing one is none to read.
static bool les_is_host_vector(const struct ggml_tensor * t, int64_t n) {
    return !t || (t->type == GGML_TYPE_F32 && t->ne[0] == n && t->buffer && ggml_backend_buffer_is_host(t->buffer));
}

// The router of the next streamed layer if x can be put through it, else NULL. It is a source of the node for steps of
// any width, also where it is not used: ggml's allocator takes two graphs with equally many nodes and leafs for the same
// graph, and a router that came and went would change the order of the leafs.
static struct ggml_tensor * les_next_router(const struct les_model * model, int32_t layer, const struct ggml_tensor * x) {
    const int32_t next = model->layers[layer].next;
    if (next < 0 || model->layers[next].router < 0 || x->ne[1] != 1) {
        return NULL;
    }
    const struct les_router *  r = &model->routers[model->layers[next].router];
    struct ggml_tensor *       w = r->weight;
    if (!w || !r->guess.data || w->ne[0] != x->ne[0] ||
        w->ne[1] != model->layers[next].info.n_expert || x->type != GGML_TYPE_F32 ||
        !les_is_host_vector(r->bias, w->ne[1]) || !les_is_host_vector(r->select, w->ne[1])) {
        return NULL;
    }
    return w;
}

struct ggml_tensor * les_hook_graph_moe(struct ggml_context * ctx, struct ggml_cgraph * gf, struct ggml_tensor * down, int32_t gating) {
    if (down->op != GGML_OP_MUL_MAT_ID || !les_hook_is_streamed(down->src[0]) || les_weight_of(down->src[0])->layer < 0) {
        return down;
    }
    struct les_model * model = les_weight_of(down->src[0])->model;
    const int32_t      layer = les_weight_of(down->src[0])->layer;
    struct les_parts parts;
    if (atomic_load_explicit(&model->apart, memory_order_relaxed) || !les_match(down, &parts)) {
        struct ggml_tensor * x      = les_find_input(down, 12);
        struct ggml_tensor * router = x ? les_next_router(model, layer, x) : NULL;
        if (router) {
            struct ggml_tensor * args[] = { x, down->src[2], router };
            struct ggml_tensor * node = ggml_custom_4d(ctx, GGML_TYPE_F32, router->ne[1], 2, 1, 1, args, 3, les_op_predict, GGML_N_TASKS_MAX, model);
            ggml_set_op_params_i32(node, LES_PARAM_GATING, gating);
            ggml_set_op_params_i32(node, LES_PARAM_ACT, layer);
            ggml_build_forward_expand(gf, node);
        }
        return down;
    }
    struct ggml_tensor * router = les_next_router(model, layer, parts.x);
    struct ggml_tensor * args[] = { parts.x, parts.ids, parts.down, parts.up, parts.gate, router, parts.up_bias, parts.gate_bias };
    struct ggml_tensor * node = ggml_custom_4d(ctx, GGML_TYPE_F32, down->ne[0], down->ne[1], down->ne[2], 1, args, 8,
            les_op_moe, GGML_N_TASKS_MAX, model);
    for (int i = 0; i < 4; i++) {
        ggml_set_op_params_i32(node, LES_PARAM_ACT + i, parts.act[i]);
    }
    ggml_set_op_params_i32(node, LES_PARAM_GATING, gating);
    return node;
}

// The model that a node of ours belongs to.
static struct les_model * les_model_of(const struct ggml_tensor * t) {
    if (t->op != GGML_OP_CUSTOM) {
        return les_weight_of(t->src[0])->model;
    }
    struct ggml_custom_op_params p;
    memcpy(&p, t->op_params, sizeof(p));
    return p.userdata;
}

bool les_hook_graph_failed(const struct ggml_cgraph * gf) {
    for (int i = 0; i < gf->n_nodes; i++) {
        const struct ggml_tensor * t = gf->nodes[i];
        bool fused = false;
        const bool ours = les_op_is(t, &fused) || les_hook_is_streamed(t->src[0]);
        if (ours && ggml_get_op_params_i32(t, LES_PARAM_FAILED) != 0) {
            les_model_report(les_model_of(t));
            return true;
        }
    }
    return false;
}
