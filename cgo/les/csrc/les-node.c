// Layout of a node's work buffer, grouping of its (token, expert) pairs, and the inputs of its products.

#include "les-node.h"

#include "iqp.h"

#include <string.h>

static void * les_take(struct les_node * node, char * base, size_t n_bytes) {
    void * p = base ? base + node->bytes : NULL;
    node->bytes += GGML_PAD(n_bytes, LES_CACHE_LINE);
    return p;
}

// Bytes of a row that is quantised for these weights, with its sums. Upstream's batched kernel knows of no sums.
static size_t les_row_bytes(const struct les_node * node, const struct ggml_tensor * w) {
    return ggml_row_size(les_dot_type(w), w->ne[0]) + (node->panel ? 0 : les_dot_sums_bytes(w));
}

// Bytes of n_rows rows of input once quantised for these weights; 0 where the input is used as it is.
size_t les_input_bytes(const struct les_node * node, const struct ggml_tensor * w, int64_t n_rows) {
    return les_dot_type(w) == GGML_TYPE_F32 ? 0 : les_row_bytes(node, w)*n_rows;
}

static void les_node_sources(struct les_node * node, const struct ggml_tensor * dst) {
    *node = (struct les_node) { .dst = dst };
    if (dst->op == GGML_OP_MUL_MAT_ID) {
        node->down = dst->src[0];
        node->x    = dst->src[1];
        node->ids  = dst->src[2];
        node->panel = ggml_cpu_iqp_supports_mul_mat_id(dst);
    } else {
        node->x      = dst->src[LES_SRC_X];
        node->ids    = dst->src[LES_SRC_IDS];
        node->down   = dst->src[LES_SRC_DOWN];
        node->up     = dst->src[LES_SRC_UP];
        node->gate   = dst->src[LES_SRC_GATE];
        node->up_bias   = dst->src[LES_SRC_UP_BIAS];
        node->gate_bias = dst->src[LES_SRC_GATE_BIAS];
        node->n_ff   = node->down->ne[0];
        node->gated  = node->gate || node->up->ne[1] == 2*node->n_ff;
    }
    const struct les_weight * w = les_weight_of(node->down);
    node->model = w->model;
    node->layer = w->layer;
    if (node->up && dst->src[LES_SRC_ROUTER] && node->x->ne[2] <= LES_PREDICT_TOKENS_MAX) {
        node->router = les_guess_weight(node->model, node->layer);
    }
}

// Takes a node apart and lays out its work buffer. With base NULL it only counts bytes, those lost to alignment included.
void les_node_init(struct les_node * node, const struct ggml_tensor * dst, char * base, int n_threads) {
    base = les_align(base);
    les_node_sources(node, dst);
    node->n_pairs = node->ids->ne[0]*node->ids->ne[1];
    node->n_second = (int32_t) ((node->down->ne[1] + LES_ROWS_UNIT - 1)/LES_ROWS_UNIT);
    node->spans_second = LES_WORD_READY(les_weight_of(node->down)->span);
    if (node->up) {
        node->n_first = (int32_t) ((node->n_ff + LES_ROWS_UNIT - 1)/LES_ROWS_UNIT);
        node->spans_first = LES_WORD_READY(les_weight_of(node->up)->span);
        if (node->gate) {
            node->spans_first |= LES_WORD_READY(les_weight_of(node->gate)->span);
        }
    }
    node->spans = node->spans_first | node->spans_second;

    const int64_t n_expert  = node->down->ne[2];
    const int64_t n_entries = MIN(n_expert, node->n_pairs);
    const int64_t n_x       = node->x->ne[1]*node->x->ne[2];
    const int64_t n_scratch = MAX(n_expert, node->router ? node->router->ne[1] : 0); // the next layer may have more experts
    const struct ggml_tensor * first = node->up ? node->up : node->down;

    node->head    = les_take(node, base, sizeof(struct les_head));
    node->entries = les_take(node, base, n_entries*sizeof(struct les_entry));
    node->rows    = les_take(node, base, node->n_pairs*sizeof(struct les_row));
    node->list    = les_take(node, base, (n_expert + n_scratch)*sizeof(int32_t));
    node->count   = les_take(node, base, n_expert*sizeof(int32_t));
    node->xq_up   = les_take(node, base, les_input_bytes(node, first, n_x));
    node->xq_gate = node->xq_up;
    node->gate_apart = node->gate &&
        (les_dot_type(node->gate) != les_dot_type(node->up) || les_dot_sums_bytes(node->gate) != les_dot_sums_bytes(node->up));
    if (node->gate_apart) {
        node->xq_gate = les_take(node, base, les_input_bytes(node, node->gate, n_x));
    }
    if (node->up) {
        node->act  = les_take(node, base, node->n_pairs*node->n_ff*sizeof(float));
        node->actq = les_take(node, base, les_input_bytes(node, node->down, node->n_pairs));
    }
    if (node->router) {
        node->scores   = les_take(node, base, node->router->ne[1]*node->x->ne[2]*sizeof(float));
        node->xq_guess = les_take(node, base, les_input_bytes(node, node->router, n_x));
    }
    node->tmp_bytes = 2*LES_DOT_INPUTS_MAX*LES_ROWS_UNIT*sizeof(float);
    if (node->panel) {
        node->tmp_bytes = MAX(node->tmp_bytes, ggml_cpu_iqp_scratch_size(dst));
    }
    node->tmp_bytes = GGML_PAD(node->tmp_bytes, LES_CACHE_LINE);
    node->tmp = les_take(node, base, n_threads*node->tmp_bytes);
    node->bytes += LES_CACHE_LINE - 1;
}

// Groups the (token, expert) pairs by expert. Returns false on an id that the layer does not have.
static bool les_node_group(struct les_node * node) {
    const struct ggml_tensor * ids = node->ids;
    const int32_t n_expert = (int32_t) node->down->ne[2];
    memset(node->count, 0, n_expert*sizeof(int32_t));
    for (int64_t i2 = 0; i2 < ids->ne[1]; i2++) {
        for (int64_t i1 = 0; i1 < ids->ne[0]; i1++) {
            const int32_t id = *(const int32_t *) ((const char *) ids->data + i2*ids->nb[1] + i1*ids->nb[0]);
            if (id < 0 || id >= n_expert) {
                return false;
            }
            node->count[id]++;
        }
    }
    int32_t n = 0;
    int32_t row = 0;
    for (int32_t id = 0; id < n_expert; id++) {
        if (node->count[id] == 0) {
            continue;
        }
        struct les_entry * e = &node->entries[n];
        *e = (struct les_entry) { .id = id, .row0 = row };
        row += node->count[id];
        node->list[n]   = id;
        node->count[id] = n++; // from here on: the expert's entry
    }
    node->head->n_entries = n;
    for (int64_t i2 = 0; i2 < ids->ne[1]; i2++) {
        for (int64_t i1 = 0; i1 < ids->ne[0]; i1++) {
            const int32_t id = *(const int32_t *) ((const char *) ids->data + i2*ids->nb[1] + i1*ids->nb[0]);
            struct les_entry * e = &node->entries[node->count[id]];
            node->rows[e->row0 + e->n_rows++] = (struct les_row) { (int32_t) i1, (int32_t) i2 };
        }
    }
    return true;
}

void les_node_fail(struct les_node * node, const char * text) {
    if (text) {
        les_model_set_error(node->model, text);
    }
    atomic_store_explicit(&node->head->failed, 1, memory_order_release);
    les_wake(node->model); // threads that wait for bytes have nothing to wait for
}

// Thread 0: groups the pairs and hands the routed set to the scheduler, before anything else is done.
void les_node_route(struct les_node * node, struct ggml_tensor * dst) {
    *node->head = (struct les_head) { 0 };
    ggml_set_op_params_i32(dst, LES_PARAM_FAILED, 0);
    // Sequentially consistent against les_model_close, which closes, then looks at running: one of the two sees the other.
    atomic_fetch_add_explicit(&node->model->running, 1, memory_order_seq_cst);
    if (!atomic_load_explicit(&node->model->open, memory_order_seq_cst)) {
        les_node_fail(node, "experts are not open: les_model_open has not been called, or les_model_close has");
        return;
    }
    if (!les_node_group(node)) {
        node->head->n_entries = 0;
        les_node_fail(node, "router chose an expert that the layer does not have");
        return;
    }
    const struct les_callbacks * cb = &node->model->callbacks;
    node->head->starved = cb->routed(cb->user, node->layer, node->list, node->head->n_entries, node->spans, (int32_t) node->ids->ne[1]);
    if (node->head->starved < 0) {
        les_node_fail(node, NULL);
    }
}

// Each thread converts its share of every row of x, as upstream does.
void les_quantise_x(const struct les_node * node, const struct ggml_tensor * w, char * xq, int ith, int nth) {
    const enum ggml_type type = les_dot_type(w);
    if (type == GGML_TYPE_F32) {
        return;
    }
    const struct ggml_tensor * x = node->x;
    ggml_from_float_t const from_float = ggml_get_type_traits_cpu(type)->from_float;
    const int64_t bs   = ggml_blck_size(type);
    const int64_t b0   = (ith*x->ne[0]/bs)/nth;
    const int64_t b1   = ((ith + 1)*x->ne[0]/bs)/nth;
    const size_t  nb1  = les_row_bytes(node, w);
    const size_t  sums = ggml_row_size(type, x->ne[0]);
    for (int64_t i2 = 0; i2 < x->ne[2]; i2++) {
        for (int64_t i1 = 0; i1 < x->ne[1]; i1++) {
            char * row = xq + (i2*x->ne[1] + i1)*nb1;
            char * q   = row + b0*ggml_type_size(type);
            from_float((const float *) ((const char *) x->data + i2*x->nb[2] + i1*x->nb[1]) + b0*bs, q, (b1 - b0)*bs);
            if (nb1 > sums) {
                les_dot_sums(type, row, row + sums, b0, b1);
            }
        }
    }
}

struct les_input les_input_x(const struct les_node * node, const struct ggml_tensor * w, const char * xq) {
    const struct ggml_tensor * x = node->x;
    if (les_dot_type(w) == GGML_TYPE_F32) {
        return (struct les_input) { x->data, x->nb[1], x->nb[2], x->ne[1] };
    }
    const size_t nb1 = les_row_bytes(node, w);
    return (struct les_input) { xq, nb1, nb1*x->ne[1], x->ne[1] };
}

struct les_input les_input_act(const struct les_node * node) {
    const bool   plain = les_dot_type(node->down) == GGML_TYPE_F32;
    const size_t nb1   = plain ? node->n_ff*sizeof(float) : les_input_bytes(node, node->down, 1);
    return (struct les_input) { plain ? (const char *) node->act : node->actq, nb1, nb1*node->ids->ne[0], node->ids->ne[0] };
}

const char * les_input_row(const struct les_input * in, struct les_row r) {
    return in->data + (r.i1 % in->ne1)*in->nb1 + r.i2*in->nb2;
}
