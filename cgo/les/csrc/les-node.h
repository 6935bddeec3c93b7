// The MoE node of LES as the CPU side sees it: its sources, its work buffer and its routed experts.
//
// A node's work is cut into units. Each routed expert (an entry) has units of its first phase (rows of gate and up, and
// the activation between) and units of its second phase (rows of down); a plain MUL_MAT_ID has the second phase only.
// Units are claimed with atomic counters: any thread takes any unit whose bytes are in place, so that no thread waits
// for flash while there is anything to compute. Every row is computed by the same vec_dot on the same operands as
// upstream's ggml_compute_forward_mul_mat_id, and results are stored per (expert, token), so that neither order nor
// timing can change a bit; the sum over experts stays with upstream's nodes, in the router's order.

#pragma once

#include "les-impl.h"
#include "les-os.h"

#include "ggml-cpu-impl.h"
#include "ggml-cpu.h"
#include "ggml-impl.h"

#include <assert.h>

#define LES_CACHE_LINE 64

// Rows per unit. A multiple of every vector length, so that the activation sees the same lanes as on whole rows.
#define LES_ROWS_UNIT 128

// Inputs that one call of les_dot_rows takes.
#define LES_DOT_INPUTS_MAX 4

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
    int32_t starved;   // experts that had no slot when the node started; constant after the barrier
    int32_t n_guesses; // of a lookahead node of its own; constant after the barrier
    char pad[LES_CACHE_LINE - 7*4];
};

struct les_row {
    int32_t i1; // place among the token's experts
    int32_t i2; // token
};

// One input of matrix products, as rows of the type that the weights' vec_dot wants, each with its sums (les-dot.c) behind it.
struct les_input {
    const char * data;
    size_t       nb1;
    size_t       nb2;
    int64_t      ne1; // rows per token; the row of a pair is i1 % ne1
};

// A node taken apart: the same on every thread.
struct les_node {
    const struct ggml_tensor * dst;
    struct les_model *         model;
    const struct ggml_tensor * x;
    const struct ggml_tensor * ids;
    const struct ggml_tensor * gate;   // NULL when merged with up, without a gate, or in a plain product
    const struct ggml_tensor * up;     // NULL in a plain product
    const struct ggml_tensor * down;   // the weights of the second phase
    const struct ggml_tensor * up_bias;   // [rows of up][n_expert], NULL without
    const struct ggml_tensor * gate_bias; // NULL without or when merged
    const struct ggml_tensor * router; // of the next layer, as the lookahead uses it; NULL without lookahead
    int32_t  layer;
    int64_t  n_ff;   // 0 in a plain product
    bool     gated;  // the activation is one of gate and up
    int64_t  n_pairs;
    int32_t  n_first;  // units an expert
    int32_t  n_second;
    uint32_t spans;    // mask of the spans that the node reads
    uint32_t spans_first;
    uint32_t spans_second;
    bool     gate_apart; // gate wants x in another type than up, or with other sums
    bool     panel; // the product has a batched kernel of its own for some experts

    // parts of the work buffer
    struct les_head *  head;
    struct les_entry * entries;
    struct les_row *   rows;
    int32_t *          list;   // distinct ids, then scratch of thread 0
    int32_t *          count;  // [n_expert]
    char *             xq_up;
    char *             xq_gate; // same as xq_up unless gate_apart
    float *            act;     // [n_pairs][n_ff]
    char *             actq;
    char *             tmp;     // per thread
    float *            scores;  // [n_expert][tokens] of the lookahead
    char *             xq_guess;
    size_t             tmp_bytes;
    size_t             bytes;
};

// ggml aligns work buffers to 16 bytes only; heads and entries are a cache line each and must not share one. NULL stays NULL.
static inline char * les_align(void * base) {
    return base ? (char *) base + (LES_CACHE_LINE - (uintptr_t) base % LES_CACHE_LINE) % LES_CACHE_LINE : NULL;
}

// Type that a weight's vec_dot wants its other operand in.
static inline enum ggml_type les_dot_type(const struct ggml_tensor * w) {
    return ggml_get_type_traits_cpu(w->type)->vec_dot_type;
}

// les-node.c: layout of the work buffer, grouping by expert, inputs

void             les_node_init   (struct les_node * node, const struct ggml_tensor * dst, char * base, int n_threads);
void             les_node_route  (struct les_node * node, struct ggml_tensor * dst);
void             les_node_fail   (struct les_node * node, const char * text);
size_t           les_input_bytes (const struct les_node * node, const struct ggml_tensor * w, int64_t n_rows);
void             les_quantise_x  (const struct les_node * node, const struct ggml_tensor * w, char * xq, int ith, int nth);
struct les_input les_input_x     (const struct les_node * node, const struct ggml_tensor * w, const char * xq);
struct les_input les_input_act   (const struct les_node * node);
const char *     les_input_row   (const struct les_input * in, struct les_row row);

// les-dot.c: rows times inputs

size_t les_dot_sums_bytes(const struct ggml_tensor * w);
void   les_dot_sums      (enum ggml_type type, const void * row, void * sums, int64_t b0, int64_t b1);
void   les_dot_rows      (const struct ggml_tensor * w, const char * rows, int64_t n, const char * const * in, int n_in, float * const * out);

// les-unit.c: the arithmetic of one unit

void les_unit_first  (const struct les_node * node, const struct les_entry * e, uint32_t word, int32_t unit, char * tmp);
void les_finish_first(const struct les_node * node, struct les_entry * e);
void les_unit_second (const struct les_node * node, const struct les_entry * e, uint32_t word, int32_t unit);
void les_unit_panel  (const struct les_node * node, const struct les_entry * e, uint32_t word, char * tmp);

// les-work.c: who computes what when

void les_node_work   (struct les_node * node, int ith, char * tmp);
void les_node_release(struct les_node * node, bool all);

// les-predict.c: the next layer's router on this layer's input

void   les_node_predict(struct les_node * node, int ith);
void   les_cpu_predict (struct ggml_compute_params * params, struct ggml_tensor * op);
size_t les_predict_work_size(const struct ggml_tensor * op);
