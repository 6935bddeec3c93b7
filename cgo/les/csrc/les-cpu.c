// The MoE nodes of LES: experts are computed in the order in which they are in memory, by whichever thread is free.
//
// A node's work is cut into units. Each routed expert (an entry) has units of its first phase (rows of gate and up, and
// the activation between) and units of its second phase (rows of down); a plain MUL_MAT_ID has the second phase only.
// Units are claimed with atomic counters: any thread takes any unit whose bytes are in place, so that no thread waits
// for flash while there is anything to compute. Every row is computed by the same vec_dot on the same operands as
// upstream's ggml_compute_forward_mul_mat_id, and results are stored per (expert, token), so that neither order nor
// timing can change a bit; the sum over experts stays with upstream's nodes, in the router's order.

#include "les-cpu.h"
#include "les-impl.h"
#include "les-os.h"

#include "ggml-cpu.h"
#include "ggml-impl.h"
#include "iqp.h"
#include "ops.h"

#include <string.h>

#define LES_CACHE_LINE 64

// Rows per unit. A multiple of every vector length, so that the activation sees the same lanes as on whole rows.
#define LES_ROWS_UNIT 128

// Claims and completions of one routed expert. Counters are advanced by all threads of the node.
struct les_entry {
    int32_t id;
    int32_t n_rows; // tokens that chose this expert
    int32_t row0;   // first of them in the table of rows
    bool    released; // thread 0 only
    _Atomic int32_t first_next;  // units of the first phase claimed
    _Atomic int32_t first_done;
    _Atomic int32_t second_next; // units of the second phase claimed
    _Atomic int32_t second_done;
    _Atomic int32_t act_ready;   // the activation of all rows is in place and quantised
    char pad[LES_CACHE_LINE - 9*4];
};

static_assert(sizeof(struct les_entry) == LES_CACHE_LINE, "entries are one cache line each");

// Shared head of a node's work buffer.
struct les_head {
    _Atomic int32_t failed;
    _Atomic int32_t predict_next; // rows of the router claimed
    _Atomic int32_t predict_done;
    _Atomic int32_t left;         // threads that have no more work in this node
    int32_t n_entries;
    int32_t starved; // experts that had no slot when the node started; thread 0 only
    char pad[LES_CACHE_LINE - 6*4];
};

struct les_row {
    int32_t i1; // place among the token's experts
    int32_t i2; // token
};

// One input of matrix products, as rows of the type that the weights' vec_dot wants.
struct les_input {
    const char * data;
    size_t       nb1;
    size_t       nb2;
    int64_t      ne1; // rows per token; the row of a pair is i1 % ne1
};

// A node taken apart: the same on every thread.
struct les_node {
    struct ggml_tensor *       dst;
    struct les_model *         model;
    const struct ggml_tensor * x;
    const struct ggml_tensor * ids;
    const struct ggml_tensor * gate;   // NULL when merged with up, or in a plain product
    const struct ggml_tensor * up;     // NULL in a plain product
    const struct ggml_tensor * down;   // the weights of the second phase
    const struct ggml_tensor * router; // NULL without lookahead
    int32_t  layer;
    int64_t  n_ff;   // 0 in a plain product
    int64_t  n_pairs;
    int32_t  n_first;  // units an expert
    int32_t  n_second;
    uint32_t spans;    // mask of the spans that the node reads
    uint32_t spans_first;
    uint32_t spans_second;
    bool     panel; // the product has a batched kernel of its own for some experts

    // parts of the work buffer
    struct les_head *  head;
    struct les_entry * entries;
    struct les_row *   rows;
    int32_t *          list;   // distinct ids, then scratch of thread 0
    int32_t *          count;  // [n_expert]
    char *             xq_up;
    char *             xq_gate; // same as xq_up where the types agree
    float *            act;     // [n_pairs][n_ff]
    char *             actq;
    char *             tmp;     // per thread
    float *            scores;  // [n_expert][tokens] of the lookahead
    size_t             tmp_bytes;
    size_t             bytes;
};

static enum ggml_type les_dot_type(const struct ggml_tensor * w) {
    return ggml_get_type_traits_cpu(w->type)->vec_dot_type;
}

static void * les_take(struct les_node * node, char * base, size_t n_bytes) {
    void * p = base ? base + node->bytes : NULL;
    node->bytes += GGML_PAD(n_bytes, LES_CACHE_LINE);
    return p;
}

// Bytes of x once quantised for these weights; 0 where x is used as it is.
static size_t les_quantised_bytes(const struct ggml_tensor * w, int64_t n_rows) {
    const enum ggml_type type = les_dot_type(w);
    return type == GGML_TYPE_F32 ? 0 : ggml_row_size(type, w->ne[0])*n_rows;
}

static void les_node_sources(struct les_node * node, struct ggml_tensor * dst) {
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
        node->router = dst->src[LES_SRC_ROUTER];
        node->n_ff   = node->down->ne[0];
    }
    const struct les_weight * w = les_weight_of(node->down);
    node->model = w->model;
    node->layer = w->layer;
}

// Takes a node apart and lays out its work buffer. With base NULL it only counts bytes.
static void les_node_init(struct les_node * node, struct ggml_tensor * dst, char * base, int n_threads) {
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
    const struct ggml_tensor * first = node->up ? node->up : node->down;

    node->head    = les_take(node, base, sizeof(struct les_head));
    node->entries = les_take(node, base, n_entries*sizeof(struct les_entry));
    node->rows    = les_take(node, base, node->n_pairs*sizeof(struct les_row));
    node->list    = les_take(node, base, 2*n_expert*sizeof(int32_t));
    node->count   = les_take(node, base, n_expert*sizeof(int32_t));
    node->xq_up   = les_take(node, base, les_quantised_bytes(first, n_x));
    node->xq_gate = node->xq_up;
    if (node->gate && les_dot_type(node->gate) != les_dot_type(node->up)) {
        node->xq_gate = les_take(node, base, les_quantised_bytes(node->gate, n_x));
    }
    if (node->up) {
        node->act  = les_take(node, base, node->n_pairs*node->n_ff*sizeof(float));
        node->actq = les_take(node, base, les_quantised_bytes(node->down, node->n_pairs));
    }
    if (node->router) {
        node->scores = les_take(node, base, node->router->ne[1]*node->x->ne[2]*sizeof(float));
    }
    node->tmp_bytes = 2*LES_ROWS_UNIT*sizeof(float);
    if (node->panel) {
        node->tmp_bytes = MAX(node->tmp_bytes, ggml_cpu_iqp_scratch_size(dst));
    }
    node->tmp_bytes = GGML_PAD(node->tmp_bytes, LES_CACHE_LINE);
    node->tmp = les_take(node, base, n_threads*node->tmp_bytes);
}

// preparing

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

static void les_node_fail(struct les_node * node, const char * text) {
    if (text) {
        les_model_set_error(node->model, text);
    }
    atomic_store_explicit(&node->head->failed, 1, memory_order_release);
}

// Thread 0: groups the pairs and hands the routed set to the scheduler, before anything else is done.
static void les_node_route(struct les_node * node) {
    *node->head = (struct les_head) { 0 };
    ggml_set_op_params_i32(node->dst, LES_PARAM_FAILED, 0);
    atomic_fetch_add(&node->model->running, 1);
    if (!atomic_load_explicit(&node->model->open, memory_order_acquire)) {
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
static void les_quantise_x(const struct les_node * node, const struct ggml_tensor * w, char * xq, int ith, int nth) {
    const enum ggml_type type = les_dot_type(w);
    if (type == GGML_TYPE_F32) {
        return;
    }
    const struct ggml_tensor * x = node->x;
    ggml_from_float_t const from_float = ggml_get_type_traits_cpu(type)->from_float;
    const int64_t bs  = ggml_blck_size(type);
    const int64_t b0  = (ith*x->ne[0]/bs)/nth;
    const int64_t b1  = ((ith + 1)*x->ne[0]/bs)/nth;
    const size_t  nb1 = ggml_row_size(type, x->ne[0]);
    for (int64_t i2 = 0; i2 < x->ne[2]; i2++) {
        for (int64_t i1 = 0; i1 < x->ne[1]; i1++) {
            from_float((const float *) ((const char *) x->data + i2*x->nb[2] + i1*x->nb[1]) + b0*bs,
                       xq + (i2*x->ne[1] + i1)*nb1 + b0*ggml_type_size(type), (b1 - b0)*bs);
        }
    }
}

static struct les_input les_input_x(const struct les_node * node, const struct ggml_tensor * w, const char * xq) {
    const struct ggml_tensor * x = node->x;
    const enum ggml_type type = les_dot_type(w);
    if (type == GGML_TYPE_F32) {
        return (struct les_input) { x->data, x->nb[1], x->nb[2], x->ne[1] };
    }
    const size_t nb1 = ggml_row_size(type, x->ne[0]);
    return (struct les_input) { xq, nb1, nb1*x->ne[1], x->ne[1] };
}

static struct les_input les_input_act(const struct les_node * node) {
    const bool   plain = les_dot_type(node->down) == GGML_TYPE_F32;
    const size_t nb1   = plain ? node->n_ff*sizeof(float) : ggml_row_size(les_dot_type(node->down), node->n_ff);
    return (struct les_input) { plain ? (const char *) node->act : node->actq, nb1, nb1*node->ids->ne[0], node->ids->ne[0] };
}

static const char * les_input_row(const struct les_input * in, struct les_row r) {
    return in->data + (r.i1 % in->ne1)*in->nb1 + r.i2*in->nb2;
}

// units

// out[0..n) = rows [r0, r0 + n) of one expert's matrix times one input row.
static void les_dot_rows(const struct ggml_tensor * w, const char * expert, int64_t r0, int64_t n, const char * in, float * out) {
    ggml_vec_dot_t const vec_dot = ggml_get_type_traits_cpu(w->type)->vec_dot;
    for (int64_t r = 0; r < n; r++) {
        vec_dot((int) w->ne[0], out + r, 0, expert + (r0 + r)*w->nb[1], 0, in, 0, 1);
    }
}

// The gated activation by ggml's own code, on one stretch of one row.
static void les_glu(const struct les_node * node, float * gate, float * up, float * out, int64_t n) {
    struct ggml_tensor g = { .type = GGML_TYPE_F32, .ne = { n, 1, 1, 1 }, .data = gate };
    g.nb[0] = sizeof(float);
    g.nb[1] = g.nb[2] = g.nb[3] = n*sizeof(float);
    struct ggml_tensor u = g;
    u.data = up;
    struct ggml_tensor d = g;
    d.data = out;
    d.op   = GGML_OP_GLU;
    d.src[0] = &g;
    d.src[1] = &u;
    for (int i = 0; i < 4; i++) {
        ggml_set_op_params_i32(&d, i, ggml_get_op_params_i32(node->dst, LES_PARAM_GLU + i));
    }
    const struct ggml_compute_params params = { .ith = 0, .nth = 1 };
    ggml_compute_forward_glu(&params, &d);
}

// First phase, rows [r0, r1) of gate and up for all tokens of an expert.
static void les_unit_first(const struct les_node * node, const struct les_entry * e, uint32_t word, int32_t unit, char * tmp) {
    const int64_t r0 = (int64_t) unit*LES_ROWS_UNIT;
    const int64_t n  = MIN(LES_ROWS_UNIT, node->n_ff - r0);
    const char * up   = les_expert_data(les_weight_of(node->up), e->id, word);
    const char * gate = node->gate ? les_expert_data(les_weight_of(node->gate), e->id, word) : up;
    const struct ggml_tensor * gate_w = node->gate ? node->gate : node->up;
    const int64_t up0 = node->gate ? r0 : r0 + node->n_ff; // merged: gate's rows come first
    const struct les_input in_up   = les_input_x(node, node->up, node->xq_up);
    const struct les_input in_gate = les_input_x(node, gate_w, node->xq_gate);
    float * g = (float *) tmp;
    float * u = g + LES_ROWS_UNIT;
    for (int32_t i = 0; i < e->n_rows; i++) {
        const struct les_row row = node->rows[e->row0 + i];
        les_dot_rows(gate_w, gate, r0, n, les_input_row(&in_gate, row), g);
        les_dot_rows(node->up, up, up0, n, les_input_row(&in_up, row), u);
        les_glu(node, g, u, node->act + (row.i1 + row.i2*node->ids->ne[0])*node->n_ff + r0, n);
    }
}

// The thread that ends an expert's first phase converts its activation for the second.
static void les_finish_first(const struct les_node * node, struct les_entry * e) {
    const enum ggml_type type = les_dot_type(node->down);
    if (type != GGML_TYPE_F32) {
        ggml_from_float_t const from_float = ggml_get_type_traits_cpu(type)->from_float;
        const size_t nb1 = ggml_row_size(type, node->n_ff);
        for (int32_t i = 0; i < e->n_rows; i++) {
            const struct les_row row = node->rows[e->row0 + i];
            const int64_t pair = row.i1 + row.i2*node->ids->ne[0];
            from_float(node->act + pair*node->n_ff, node->actq + pair*nb1, node->n_ff);
        }
    }
    atomic_store_explicit(&e->act_ready, 1, memory_order_release);
}

// Second phase, rows [r0, r1) of down for all tokens of an expert, in blocks that keep weights and inputs in cache.
static void les_unit_second(const struct les_node * node, const struct les_entry * e, uint32_t word, int32_t unit) {
    const int64_t block = 16;
    const int64_t r0 = (int64_t) unit*LES_ROWS_UNIT;
    const int64_t r1 = MIN(r0 + LES_ROWS_UNIT, node->down->ne[1]);
    const char * down = les_expert_data(les_weight_of(node->down), e->id, word);
    const struct les_input in = node->up ? les_input_act(node) : les_input_x(node, node->down, node->xq_up);
    for (int64_t r = r0; r < r1; r += block) {
        for (int32_t i = 0; i < e->n_rows; i++) {
            const struct les_row row = node->rows[e->row0 + i];
            float * out = (float *) ((char *) node->dst->data + row.i1*node->dst->nb[1] + row.i2*node->dst->nb[2]);
            les_dot_rows(node->down, down, r, MIN(block, r1 - r), les_input_row(&in, row), out + r);
        }
    }
}

// A plain product by upstream's batched kernel: the whole expert at once, on one thread.
static void les_unit_panel(const struct les_node * node, const struct les_entry * e, uint32_t word, char * tmp) {
    struct ggml_tensor w = *node->down;
    struct ggml_tensor d = *node->dst;
    w.data = (char *) les_expert_data(les_weight_of(node->down), e->id, word);
    d.src[0] = &w;
    const struct ggml_compute_params params = { .ith = 0, .nth = 1, .wdata = node->xq_up };
    ggml_compute_forward_mul_mat_id_iqp(&params, &d, 0, e->n_rows, (const int32_t *) (node->rows + e->row0), tmp);
}

// scheduling of units

enum les_claim {
    LES_NOTHING, // every unit is claimed
    LES_WORKED,
    LES_BUSY,    // the rest depends on what other threads are computing
    LES_BLOCKED, // the rest depends on bytes that are not in place
};

static bool les_entry_is_panel(const struct les_node * node, const struct les_entry * e) {
    return node->panel && ggml_cpu_iqp_mul_mat_id_min_batch(e->n_rows);
}

static uint32_t les_entry_word(const struct les_node * node, const struct les_entry * e) {
    return atomic_load_explicit(&node->model->words[node->model->layers[node->layer].word0 + (size_t) e->id], memory_order_acquire);
}

static bool les_claim_second(struct les_node * node, struct les_entry * e, uint32_t word, char * tmp) {
    const bool    panel = les_entry_is_panel(node, e);
    const int32_t total = node->n_second;
    const int32_t step  = panel ? total : 1;
    const int32_t unit  = atomic_fetch_add_explicit(&e->second_next, step, memory_order_relaxed);
    if (unit >= total) {
        return false;
    }
    if (panel) {
        les_unit_panel(node, e, word, tmp);
    } else {
        les_unit_second(node, e, word, unit);
    }
    atomic_fetch_add_explicit(&e->second_done, step, memory_order_release);
    return true;
}

static bool les_claim_first(struct les_node * node, struct les_entry * e, uint32_t word, char * tmp) {
    const int32_t unit = atomic_fetch_add_explicit(&e->first_next, 1, memory_order_relaxed);
    if (unit >= node->n_first) {
        return false;
    }
    les_unit_first(node, e, word, unit, tmp);
    if (atomic_fetch_add_explicit(&e->first_done, 1, memory_order_acq_rel) + 1 == node->n_first) {
        les_finish_first(node, e);
    }
    return true;
}

// Does one unit of an entry if one can be done now.
static enum les_claim les_entry_work(struct les_node * node, struct les_entry * e, char * tmp) {
    if (atomic_load_explicit(&e->second_next, memory_order_relaxed) >= node->n_second) {
        return LES_NOTHING;
    }
    const uint32_t word = les_entry_word(node, e);
    if (word & LES_WORD_FAILED) {
        les_node_fail(node, NULL);
        return LES_BLOCKED;
    }
    const bool act_ready = node->n_first == 0 || atomic_load_explicit(&e->act_ready, memory_order_acquire);
    if (act_ready) {
        const bool ready = (word & node->spans_second) == node->spans_second;
        return !ready ? LES_BLOCKED : les_claim_second(node, e, word, tmp) ? LES_WORKED : LES_NOTHING;
    }
    if ((word & node->spans_first) != node->spans_first) {
        return LES_BLOCKED;
    }
    if (atomic_load_explicit(&e->first_next, memory_order_relaxed) < node->n_first && les_claim_first(node, e, word, tmp)) {
        return LES_WORKED;
    }
    return LES_BUSY;
}

static bool les_entry_is_done(const struct les_node * node, struct les_entry * e) {
    return atomic_load_explicit(&e->second_done, memory_order_acquire) >= node->n_second;
}

// Thread 0: gives back the slots of experts that have been applied.
static void les_node_release(struct les_node * node, bool all) {
    int32_t * ids = node->list + node->down->ne[2];
    int32_t   n   = 0;
    for (int32_t i = 0; i < node->head->n_entries; i++) {
        struct les_entry * e = &node->entries[i];
        if (!e->released && (all || les_entry_is_done(node, e))) {
            e->released = true;
            ids[n++] = e->id;
        }
    }
    if (n > 0) {
        const struct les_callbacks * cb = &node->model->callbacks;
        if (cb->released(cb->user, node->layer, ids, n) < 0) {
            les_node_fail(node, NULL);
        }
    }
}

// lookahead

// The score by which the router of this kind selects, as llama.cpp computes it before its top-k.
static float les_selection_score(float logit, const struct les_router * r, int32_t gating, int64_t i) {
    if (r->bias) {
        logit += ((const float *) r->bias->data)[i];
    }
    if (!r->select) {
        return logit; // every gating function is monotonic
    }
    const float s = gating == 2 ? 1.0f/(1.0f + expf(-logit)) : gating == 4 ? sqrtf(logit > 20.0f ? logit : log1pf(expf(logit))) : logit;
    return s + ((const float *) r->select->data)[i];
}

// Rows of the next layer's router on x, claimed in stretches by all threads. Returns true on the thread that ended it.
static bool les_predict_rows(const struct les_node * node, struct les_head * head, const struct les_router * r, int32_t gating) {
    const struct ggml_tensor * w = node->router;
    const int64_t n_tokens = node->x->ne[2];
    const int32_t stretch  = 32;
    bool ended = false;
    for (;;) {
        const int32_t r0 = atomic_fetch_add_explicit(&head->predict_next, stretch, memory_order_relaxed);
        if (r0 >= w->ne[1]) {
            return ended;
        }
        const int32_t r1 = MIN(r0 + stretch, (int32_t) w->ne[1]);
        for (int64_t t = 0; t < n_tokens; t++) {
            float * scores = node->scores + t*w->ne[1];
            les_dot_rows(w, w->data, r0, r1 - r0, (const char *) node->x->data + t*node->x->nb[2], scores + r0);
            for (int32_t i = r0; i < r1; i++) {
                scores[i] = les_selection_score(scores[i], r, gating, i);
            }
        }
        ended = atomic_fetch_add_explicit(&head->predict_done, r1 - r0, memory_order_acq_rel) + (r1 - r0) == w->ne[1];
    }
}

// Ranks the guesses: each token's best first, then each token's second, and so on, without repeats.
static int32_t les_predict_rank(const struct les_node * node, int32_t n_guesses, int32_t * ids) {
    const int64_t n_expert = node->router->ne[1];
    const int64_t n_tokens = node->x->ne[2];
    int32_t n = 0;
    for (int32_t k = 0; k < n_guesses; k++) {
        for (int64_t t = 0; t < n_tokens; t++) {
            float * scores = node->scores + t*n_expert;
            int32_t best = 0;
            for (int32_t i = 1; i < n_expert; i++) {
                best = scores[i] > scores[best] ? i : best;
            }
            scores[best] = -INFINITY;
            bool known = false;
            for (int32_t i = 0; i < n && !known; i++) {
                known = ids[i] == best;
            }
            if (!known) {
                ids[n++] = best;
            }
        }
    }
    return n;
}

static void les_predict_tell(struct les_node * node, int32_t next, int32_t n_guesses) {
    int32_t * ids = node->list + node->down->ne[2];
    n_guesses = MIN(n_guesses, (int32_t) (node->router->ne[1]/MAX(1, node->x->ne[2])));
    const int32_t n = les_predict_rank(node, n_guesses, ids);
    const struct les_callbacks * cb = &node->model->callbacks;
    if (cb->predicted(cb->user, next, ids, n) < 0) {
        les_node_fail(node, NULL);
    }
}

// Puts x through the next layer's router on all threads; thread 0 tells the scheduler.
static void les_node_predict(struct les_node * node, int ith) {
    if (!node->router || les_dot_type(node->router) != GGML_TYPE_F32 || node->head->n_entries == 0) {
        return;
    }
    const struct les_model * m = node->model;
    const int32_t next      = m->layers[node->layer].next;
    const int32_t n_guesses = atomic_load_explicit(&node->model->layers[next].lookahead, memory_order_relaxed);
    if (n_guesses <= 0) {
        return;
    }
    const uint64_t start = ith == 0 ? les_now_ns() : 0;
    les_predict_rows(node, node->head, &m->routers[m->layers[next].router], ggml_get_op_params_i32(node->dst, LES_PARAM_GATING));
    if (ith == 0) {
        while (atomic_load_explicit(&node->head->predict_done, memory_order_acquire) < node->router->ne[1]) {
            les_os_pause();
        }
        les_predict_tell(node, next, n_guesses);
        atomic_fetch_add_explicit(&node->model->predict_ns, les_now_ns() - start, memory_order_relaxed);
    }
}

// the node

// Computes until every unit is claimed. What this thread waited for bytes is added to the model's stall.
static void les_node_work(struct les_node * node, int ith, char * tmp) {
    const int32_t n = node->head->n_entries;
    uint64_t stall = 0;
    int32_t  from  = 0; // entries before this one have no units left
    while (!atomic_load_explicit(&node->head->failed, memory_order_acquire)) {
        const uint32_t seen = atomic_load(&node->model->progress);
        bool blocked = false;
        bool busy    = false;
        bool worked  = false;
        for (int32_t i = from; i < n && !worked; i++) {
            switch (les_entry_work(node, &node->entries[i], tmp)) {
                case LES_WORKED:  worked  = true; break;
                case LES_BLOCKED: blocked = true; break;
                case LES_BUSY:    busy    = true; break;
                case LES_NOTHING: from += i == from; break;
            }
        }
        if (!worked && !blocked && !busy) {
            break;
        }
        if (ith == 0 && node->head->starved > 0) {
            les_node_release(node, false);
        }
        if (busy && !worked) {
            les_os_pause();
        } else if (!worked) {
            const uint64_t start = les_now_ns();
            les_wait(node->model, seen);
            stall += les_now_ns() - start;
            if (!atomic_load(&node->model->open)) {
                les_node_fail(node, "experts were closed while a step was running");
            }
        }
    }
    atomic_fetch_add_explicit(&node->model->stall_ns, stall, memory_order_relaxed);
}

// Thread 0, last: waits until the others have left the node, then gives everything back.
static void les_node_finish(struct les_node * node, struct ggml_compute_params * params, uint64_t start) {
    struct les_model * m = node->model;
    while (atomic_load_explicit(&node->head->left, memory_order_acquire) < params->nth) {
        les_os_pause();
    }
    if (atomic_load(&node->head->failed)) {
        ggml_set_op_params_i32(node->dst, LES_PARAM_FAILED, 1);
    }
    if (atomic_load(&m->open) && node->head->n_entries > 0) {
        les_node_release(node, true);
    }
    atomic_fetch_add_explicit(&m->node_ns, les_now_ns() - start, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->n_nodes, 1, memory_order_relaxed);
    atomic_store_explicit(&m->n_threads, params->nth, memory_order_relaxed);
    atomic_fetch_sub(&m->running, 1);
}

static void les_cpu_moe(struct ggml_compute_params * params, struct ggml_tensor * op) {
    struct les_node node;
    les_node_init(&node, op, params->wdata, params->nth);
    GGML_ASSERT(params->wsize >= node.bytes);
    const uint64_t start = params->ith == 0 ? les_now_ns() : 0;
    if (params->ith == 0) {
        les_node_route(&node);
    }
    les_quantise_x(&node, node.up ? node.up : node.down, node.xq_up, params->ith, params->nth);
    if (node.xq_gate != node.xq_up) {
        les_quantise_x(&node, node.gate, node.xq_gate, params->ith, params->nth);
    }
    ggml_barrier(params->threadpool);
    les_node_predict(&node, params->ith);
    les_node_work(&node, params->ith, node.tmp + params->ith*node.tmp_bytes);
    atomic_fetch_add_explicit(&node.head->left, 1, memory_order_release);
    if (params->ith == 0) {
        les_node_finish(&node, params, start);
    }
}

// A lookahead node of its own, for layers that are not fused: scores live in the node's own data.
static void les_cpu_predict(struct ggml_compute_params * params, struct ggml_tensor * op) {
    struct les_head * head = params->wdata;
    struct les_model * m = ((const struct ggml_custom_op_params *) op->op_params)->userdata;
    const int32_t layer     = ggml_get_op_params_i32(op, LES_PARAM_GLU);
    const int32_t next      = m->layers[layer].next;
    const int32_t n_guesses = atomic_load_explicit(&m->layers[next].lookahead, memory_order_relaxed);
    struct ggml_tensor * router = op->src[2];
    if (n_guesses <= 0 || les_dot_type(router) != GGML_TYPE_F32 || !atomic_load_explicit(&m->open, memory_order_acquire)) {
        return;
    }
    if (params->ith == 0) {
        *head = (struct les_head) { 0 };
    }
    ggml_barrier(params->threadpool);
    char * rest = (char *) params->wdata + LES_CACHE_LINE;
    struct les_node node = { .dst = op, .model = m, .x = op->src[0], .router = router, .layer = layer, .head = head,
        .down = router, .scores = (float *) rest };
    les_predict_rows(&node, head, &m->routers[m->layers[next].router], ggml_get_op_params_i32(op, LES_PARAM_GATING));
    if (params->ith == 0) {
        while (atomic_load_explicit(&head->predict_done, memory_order_acquire) < router->ne[1]) {
            les_os_pause();
        }
        int32_t * ids = (int32_t *) (rest + router->ne[1]*op->src[0]->ne[2]*sizeof(float));
        const int32_t n = les_predict_rank(&node, MIN(n_guesses, (int32_t) (router->ne[1]/op->src[0]->ne[2])), ids);
        m->callbacks.predicted(m->callbacks.user, next, ids, n);
    }
}

bool les_cpu_has_streamed(const struct ggml_tensor * op) {
    for (int i = 0; i < GGML_MAX_SRC; i++) {
        if (les_hook_is_streamed(op->src[i])) {
            return true;
        }
    }
    return false;
}

bool les_cpu_supports_op(const struct ggml_tensor * op) {
    bool fused = false;
    if (op->op == GGML_OP_MUL_MAT_ID) {
        return les_hook_is_streamed(op->src[0]) && op->src[1]->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32;
    }
    return les_op_is(op, &fused);
}

bool les_cpu_work_size(int n_threads, const struct ggml_tensor * op, size_t * size) {
    bool fused = false;
    if (op->op == GGML_OP_MUL_MAT_ID ? !les_hook_is_streamed(op->src[0]) : !les_op_is(op, &fused)) {
        return false;
    }
    if (op->op != GGML_OP_MUL_MAT_ID && !fused) {
        const int64_t n_expert = op->src[2]->ne[1];
        *size = LES_CACHE_LINE + n_expert*(op->src[0]->ne[2] + 1)*sizeof(float);
        return true;
    }
    struct les_node node;
    les_node_init(&node, (struct ggml_tensor *) op, NULL, n_threads);
    *size = node.bytes;
    return true;
}

bool les_cpu_compute_forward(struct ggml_compute_params * params, struct ggml_tensor * op) {
    bool fused = false;
    if (op->op == GGML_OP_MUL_MAT_ID ? les_hook_is_streamed(op->src[0]) : les_op_is(op, &fused) && fused) {
        les_cpu_moe(params, op);
        return true;
    }
    if (op->op == GGML_OP_CUSTOM && les_op_is(op, &fused)) {
        les_cpu_predict(params, op);
        return true;
    }
    return false;
}
