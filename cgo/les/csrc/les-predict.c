// The lookahead: the next layer's router, fed with this layer's input, ranks the experts to read ahead.

#include "les-node.h"

#include <math.h>
#include <string.h>

// llama.cpp's numbers of the gating functions, from a C++ header (llama-hparams.h). Only these two change what is selected.
enum {
    LES_GATING_SIGMOID       = 2,
    LES_GATING_SQRT_SOFTPLUS = 4,
};

static float les_gating_apply(float logit, int32_t gating) {
    switch (gating) {
        case LES_GATING_SIGMOID:       return 1.0f/(1.0f + expf(-logit));
        case LES_GATING_SQRT_SOFTPLUS: return sqrtf(logit > 20.0f ? logit : log1pf(expf(logit)));
        default:                       return logit;
    }
}

// The score by which the router of this kind selects, as llama.cpp computes it before its top-k.
static float les_selection_score(float logit, const struct les_router * r, int32_t gating, int64_t i) {
    if (r->bias) {
        logit += ((const float *) r->bias->data)[i];
    }
    if (!r->select) {
        return logit; // every gating function is monotonic
    }
    return les_gating_apply(logit, gating) + ((const float *) r->select->data)[i];
}

// Rows of the next layer's router on x, claimed in stretches by all threads.
static void les_predict_rows(const struct les_node * node, struct les_head * head, const struct les_router * r, int32_t gating) {
    const struct ggml_tensor * w = node->router;
    const int64_t n_tokens = node->x->ne[2];
    const int32_t stretch  = 32;
    const struct les_input in = les_input_x(node, w, node->xq_guess);
    for (;;) {
        const int32_t r0 = atomic_fetch_add_explicit(&head->predict_next, stretch, memory_order_relaxed);
        if (r0 >= w->ne[1]) {
            return;
        }
        const int32_t r1 = MIN(r0 + stretch, (int32_t) w->ne[1]);
        for (int64_t t = 0; t < n_tokens; t++) {
            float * scores = node->scores + t*w->ne[1];
            const char * row = les_input_row(&in, (struct les_row) { 0, (int32_t) t });
            les_dot_rows(w, (const char *) w->data + r0*w->nb[1], r1 - r0, &row, 1, &(float *) { scores + r0 });
            for (int32_t i = r0; i < r1; i++) {
                scores[i] = les_selection_score(scores[i], r, gating, i);
            }
        }
        atomic_fetch_add_explicit(&head->predict_done, r1 - r0, memory_order_acq_rel);
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
void les_node_predict(struct les_node * node, int ith) {
    if (!node->router || node->head->n_entries == 0) {
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

// A lookahead node of its own taken apart; the work buffer holds head, scores and ids, then x in the type of the router.
// With base NULL it only counts bytes.
static void les_predict_init(struct les_node * node, const struct ggml_tensor * op, char * base) {
    struct ggml_custom_op_params custom;
    memcpy(&custom, op->op_params, sizeof(custom)); // op_params has the alignment of 32-bit numbers only
    const int32_t layer = ggml_get_op_params_i32(op, LES_PARAM_ACT);
    const struct ggml_tensor * router = les_guess_weight(custom.userdata, layer);
    const int64_t n_tokens = MIN(op->src[0]->ne[2], LES_PREDICT_TOKENS_MAX);
    const size_t  scores   = GGML_PAD(router->ne[1]*(n_tokens + 1)*sizeof(float), LES_CACHE_LINE);
    char *        rest     = base ? les_align(base) + LES_CACHE_LINE : NULL;
    *node = (struct les_node) {
        .dst = op, .model = custom.userdata, .x = op->src[0], .router = router, .layer = layer, .down = router,
        .head     = (struct les_head *) les_align(base),
        .scores   = (float *) rest,
        .list     = (int32_t *) (rest ? rest + router->ne[1]*n_tokens*sizeof(float) : NULL),
        .xq_guess = rest ? rest + scores : NULL,
    };
    node->bytes = 2*LES_CACHE_LINE - 1 + scores + les_input_bytes(node, router, n_tokens);
}

size_t les_predict_work_size(const struct ggml_tensor * op) {
    struct les_node node;
    les_predict_init(&node, op, NULL);
    return node.bytes;
}

// Thread 0 decides for all threads of a lookahead node whether there is one: the scheduler may change its mind between
// two threads' looks. Sequentially consistent against les_model_close, as in les_node_route.
static void les_predict_begin(struct les_model * m, int32_t next, struct les_head * head, struct ggml_tensor * op) {
    *head = (struct les_head) { 0 };
    ggml_set_op_params_i32(op, LES_PARAM_FAILED, 0);
    atomic_fetch_add_explicit(&m->running, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&m->open, memory_order_seq_cst)) {
        head->n_guesses = atomic_load_explicit(&m->layers[next].lookahead, memory_order_relaxed);
    }
}

// Thread 0: ranks once all rows are there, and tells the scheduler.
static void les_predict_end(const struct les_node * node, struct ggml_tensor * op, int32_t next) {
    const struct les_model * m = node->model;
    const int64_t n_expert = node->router->ne[1];
    while (atomic_load_explicit(&node->head->predict_done, memory_order_acquire) < n_expert) {
        les_os_pause();
    }
    const int32_t n = les_predict_rank(node, MIN(node->head->n_guesses, (int32_t) (n_expert/node->x->ne[2])), node->list);
    if (m->callbacks.predicted(m->callbacks.user, next, node->list, n) < 0) {
        ggml_set_op_params_i32(op, LES_PARAM_FAILED, 1);
    }
}

// A lookahead node of its own, for layers that are not fused.
void les_cpu_predict(struct ggml_compute_params * params, struct ggml_tensor * op) {
    struct les_node node;
    les_predict_init(&node, op, params->wdata);
    struct les_model * m    = node.model;
    const int32_t      next = m->layers[node.layer].next;
    if (op->src[0]->ne[2] > LES_PREDICT_TOKENS_MAX) {
        return;
    }
    GGML_ASSERT(params->wsize >= node.bytes);
    if (params->ith == 0) {
        les_predict_begin(m, next, node.head, op);
    }
    les_quantise_x(&node, node.router, node.xq_guess, params->ith, params->nth);
    ggml_barrier(params->threadpool);
    if (node.head->n_guesses > 0) {
        les_predict_rows(&node, node.head, &m->routers[m->layers[next].router], ggml_get_op_params_i32(op, LES_PARAM_GATING));
        if (params->ith == 0) {
            les_predict_end(&node, op, next);
        }
    }
    if (params->ith == 0) {
        atomic_fetch_sub_explicit(&m->running, 1, memory_order_seq_cst);
    }
}
