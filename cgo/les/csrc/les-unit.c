// The arithmetic of one unit of work: the same kernels on the same operands as upstream's own products.

#include "les-node.h"

#include "iqp.h"
#include "ops.h"
#include "unary-ops.h"

// The activation by ggml's own code, on one stretch of one row: of gate and up, or of up alone.
static void les_activate(const struct les_node * node, float * gate, float * up, float * out, int64_t n) {
    struct ggml_tensor u = { .type = GGML_TYPE_F32, .ne = { n, 1, 1, 1 }, .data = up };
    u.nb[0] = sizeof(float);
    u.nb[1] = u.nb[2] = u.nb[3] = n*sizeof(float);
    struct ggml_tensor g = u;
    g.data = gate;
    struct ggml_tensor d = u;
    d.data = out;
    d.op   = node->gated ? GGML_OP_GLU : GGML_OP_UNARY;
    for (int i = 0; i < 4; i++) {
        ggml_set_op_params_i32(&d, i, ggml_get_op_params_i32(node->dst, LES_PARAM_ACT + i));
    }
    const struct ggml_compute_params params = { .ith = 0, .nth = 1 };
    if (node->gated) {
        d.src[0] = &g;
        d.src[1] = &u;
        ggml_compute_forward_glu(&params, &d);
        return;
    }
    d.src[0] = &u;
    ggml_compute_forward_unary(&params, &d);
    if (ggml_get_op_params_i32(&d, 1)) {
        u.data = out;
        ggml_compute_forward_sqr(&params, &d);
    }
}

// Adds an expert's bias, from row r0 on, to n values.
static void les_add_bias(const struct ggml_tensor * bias, int32_t id, int64_t r0, float * out, int64_t n) {
    if (bias) {
        const float * b = (const float *) ((const char *) bias->data + id*bias->nb[1]) + r0;
        for (int64_t i = 0; i < n; i++) {
            out[i] += b[i];
        }
    }
}

// First phase, rows [r0, r1) of gate and up for all tokens of an expert.
void les_unit_first(const struct les_node * node, const struct les_entry * e, uint32_t word, int32_t unit, char * tmp) {
    const int64_t r0 = (int64_t) unit*LES_ROWS_UNIT;
    const int64_t n  = MIN(LES_ROWS_UNIT, node->n_ff - r0);
    const char * up   = les_expert_data(les_weight_of(node->up), e->id, word);
    const char * gate = node->gate ? les_expert_data(les_weight_of(node->gate), e->id, word) : up;
    const struct ggml_tensor * gate_w = node->gate ? node->gate : node->up;
    const struct ggml_tensor * gate_bias = node->gate ? node->gate_bias : node->up_bias;
    const int64_t up0 = node->gate || !node->gated ? r0 : r0 + node->n_ff; // merged: gate's rows come first
    const struct les_input in_up   = les_input_x(node, node->up, node->xq_up);
    const struct les_input in_gate = les_input_x(node, gate_w, node->xq_gate);
    for (int32_t i = 0; i < e->n_rows; i += LES_DOT_INPUTS_MAX) {
        const int n_in = MIN(LES_DOT_INPUTS_MAX, e->n_rows - i);
        const char * x_gate[LES_DOT_INPUTS_MAX];
        const char * x_up[LES_DOT_INPUTS_MAX];
        float * g[LES_DOT_INPUTS_MAX];
        float * u[LES_DOT_INPUTS_MAX];
        for (int k = 0; k < n_in; k++) {
            const struct les_row row = node->rows[e->row0 + i + k];
            x_gate[k] = les_input_row(&in_gate, row);
            x_up[k]   = les_input_row(&in_up, row);
            g[k] = (float *) tmp + 2*k*LES_ROWS_UNIT;
            u[k] = g[k] + LES_ROWS_UNIT;
        }
        if (node->gated) {
            les_dot_rows(gate_w, gate + r0*gate_w->nb[1], n, x_gate, n_in, g);
        }
        les_dot_rows(node->up, up + up0*node->up->nb[1], n, x_up,   n_in, u);
        for (int k = 0; k < n_in; k++) {
            const struct les_row row = node->rows[e->row0 + i + k];
            if (node->gated) {
                les_add_bias(gate_bias, e->id, r0, g[k], n);
            }
            les_add_bias(node->up_bias, e->id, up0, u[k], n);
            les_activate(node, g[k], u[k], node->act + (row.i1 + row.i2*node->ids->ne[0])*node->n_ff + r0, n);
        }
    }
}

// The thread that ends an expert's first phase converts its activation for the second.
void les_finish_first(const struct les_node * node, struct les_entry * e) {
    const enum ggml_type type = les_dot_type(node->down);
    if (type != GGML_TYPE_F32) {
        ggml_from_float_t const from_float = ggml_get_type_traits_cpu(type)->from_float;
        const size_t sums = ggml_row_size(type, node->n_ff);
        const size_t nb1  = les_input_bytes(node, node->down, 1);
        for (int32_t i = 0; i < e->n_rows; i++) {
            const struct les_row row = node->rows[e->row0 + i];
            const int64_t pair = row.i1 + row.i2*node->ids->ne[0];
            char * q = node->actq + pair*nb1;
            from_float(node->act + pair*node->n_ff, q, node->n_ff);
            if (nb1 > sums) {
                les_dot_sums(type, q, q + sums, 0, node->n_ff/ggml_blck_size(type));
            }
        }
    }
    atomic_store_explicit(&e->act_ready, 1, memory_order_release);
}

// Second phase, rows [r0, r1) of down for all tokens of an expert, in blocks that keep weights and inputs in cache.
void les_unit_second(const struct les_node * node, const struct les_entry * e, uint32_t word, int32_t unit) {
    const int64_t block = 16;
    const int64_t r0 = (int64_t) unit*LES_ROWS_UNIT;
    const int64_t r1 = MIN(r0 + LES_ROWS_UNIT, node->down->ne[1]);
    const char * down = les_expert_data(les_weight_of(node->down), e->id, word);
    const struct les_input in = node->up ? les_input_act(node) : les_input_x(node, node->down, node->xq_up);
    for (int64_t r = r0; r < r1; r += block) {
        for (int32_t i = 0; i < e->n_rows; i += LES_DOT_INPUTS_MAX) {
            const int n_in = MIN(LES_DOT_INPUTS_MAX, e->n_rows - i);
            const char * x[LES_DOT_INPUTS_MAX];
            float * out[LES_DOT_INPUTS_MAX];
            for (int k = 0; k < n_in; k++) {
                const struct les_row row = node->rows[e->row0 + i + k];
                x[k]   = les_input_row(&in, row);
                out[k] = (float *) ((char *) node->dst->data + row.i1*node->dst->nb[1] + row.i2*node->dst->nb[2]) + r;
            }
            les_dot_rows(node->down, down + r*node->down->nb[1], MIN(block, r1 - r), x, n_in, out);
        }
    }
}

// A plain product by upstream's batched kernel: the whole expert at once, on one thread.
void les_unit_panel(const struct les_node * node, const struct les_entry * e, uint32_t word, char * tmp) {
    struct ggml_tensor w = *node->down;
    struct ggml_tensor d = *node->dst;
    w.data = les_expert_data(les_weight_of(node->down), e->id, word);
    d.src[0] = &w;
    const struct ggml_compute_params params = { .ith = 0, .nth = 1, .wdata = node->xq_up };
    ggml_compute_forward_mul_mat_id_iqp(&params, &d, 0, e->n_rows, (const int32_t *) (node->rows + e->row0), tmp);
}
