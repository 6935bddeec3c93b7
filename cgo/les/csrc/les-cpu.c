// Entry points of LES in the CPU backend.

#include "les-cpu.h"
#include "les-node.h"
#include "les-rows.h"

// Thread 0, last: waits until the others have left the node, then gives everything back.
static void les_node_finish(struct les_node * node, struct ggml_compute_params * params, struct ggml_tensor * dst, uint64_t start) {
    struct les_model * m = node->model;
    while (atomic_load_explicit(&node->head->left, memory_order_acquire) < params->nth) {
        les_os_pause();
    }
    if (atomic_load_explicit(&m->open, memory_order_seq_cst) && node->head->n_entries > 0) {
        les_node_release(node, true);
    }
    if (atomic_load_explicit(&node->head->failed, memory_order_acquire)) {
        ggml_set_op_params_i32(dst, LES_PARAM_FAILED, 1);
    }
    atomic_fetch_add_explicit(&m->node_ns, les_now_ns() - start, memory_order_relaxed);
    atomic_fetch_add_explicit(&m->n_nodes, 1, memory_order_relaxed);
    atomic_store_explicit(&m->n_threads, params->nth, memory_order_relaxed);
    atomic_fetch_sub_explicit(&m->running, 1, memory_order_seq_cst);
}

static void les_cpu_moe(struct ggml_compute_params * params, struct ggml_tensor * op) {
    struct les_node node;
    les_node_init(&node, op, params->wdata, params->nth);
    GGML_ASSERT(params->wsize >= node.bytes);
    const uint64_t start = params->ith == 0 ? les_now_ns() : 0;
    if (params->ith == 0) {
        les_node_route(&node, op);
    }
    les_quantise_x(&node, node.up ? node.up : node.down, node.xq_up, params->ith, params->nth);
    if (node.gate_apart) {
        les_quantise_x(&node, node.gate, node.xq_gate, params->ith, params->nth);
    }
    if (node.router) {
        les_quantise_x(&node, node.router, node.xq_guess, params->ith, params->nth);
    }
    ggml_barrier(params->threadpool);
    les_node_predict(&node, params->ith);
    les_node_work(&node, params->ith, node.tmp + params->ith*node.tmp_bytes);
    atomic_fetch_add_explicit(&node.head->left, 1, memory_order_release);
    if (params->ith == 0) {
        les_node_finish(&node, params, op, start);
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
    if (les_rows_is(op)) {
        return true;
    }
    if (op->op == GGML_OP_MUL_MAT_ID) {
        return les_hook_is_streamed(op->src[0]) && op->src[1]->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32;
    }
    return les_op_is(op, &fused);
}

bool les_cpu_work_size(int n_threads, const struct ggml_tensor * op, size_t * size) {
    bool fused = false;
    if (les_rows_is(op)) {
        *size = les_rows_work_size(op, n_threads);
        return true;
    }
    if (op->op == GGML_OP_MUL_MAT_ID ? !les_hook_is_streamed(op->src[0]) : !les_op_is(op, &fused)) {
        return false;
    }
    if (op->op != GGML_OP_MUL_MAT_ID && !fused) {
        *size = les_predict_work_size(op);
        return true;
    }
    struct les_node node;
    les_node_init(&node, op, NULL, n_threads);
    *size = node.bytes;
    return true;
}

bool les_cpu_compute_forward(struct ggml_compute_params * params, struct ggml_tensor * op) {
    bool fused = false;
    if (les_rows_is(op)) {
        les_cpu_rows(params, op);
        return true;
    }
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
