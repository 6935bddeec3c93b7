// Rows are read into the work buffer, each distinct one once, and upstream's own GET_ROWS converts them there: the bits are
// the same because the code and its operands are.

#include "les-rows.h"

#include "ggml-impl.h"
#include "ops.h"

#include <string.h>

#define LES_ROWS_ALIGN 64

// A node taken apart: the same on every thread.
struct les_rows {
    const struct les_weight *  weight;
    const struct ggml_tensor * ids;
    int64_t n; // rows wanted
    size_t  row_bytes;

    // parts of the work buffer
    int32_t * failed; // [threads]
    int32_t * index;  // [n] for each row wanted, the first one of those wanted that is the same
    char *    data;   // [n][row_bytes] holds distinct rows at the place of the first one
    size_t    bytes;
};

bool les_rows_is(const struct ggml_tensor * op) {
    return les_hook_is_streamed(op->src[0]) && les_weight_of(op->src[0])->rows;
}

static void * les_rows_take(struct les_rows * rows, char * base, size_t n_bytes) {
    void * p = base ? base + rows->bytes : NULL;
    rows->bytes += GGML_PAD(n_bytes, LES_ROWS_ALIGN);
    return p;
}

// Lays out the work buffer. With base NULL it only counts bytes, those lost to alignment included.
static void les_rows_init(struct les_rows * rows, const struct ggml_tensor * op, char * base, int n_threads) {
    base = base ? base + (LES_ROWS_ALIGN - (uintptr_t) base % LES_ROWS_ALIGN) % LES_ROWS_ALIGN : NULL;
    *rows = (struct les_rows) {
        .weight = les_weight_of(op->src[0]), .ids = op->src[1], .n = op->src[1]->ne[0], .row_bytes = op->src[0]->nb[1],
    };
    rows->failed = les_rows_take(rows, base, (size_t) n_threads*sizeof(int32_t));
    rows->index  = les_rows_take(rows, base, (size_t) rows->n*sizeof(int32_t));
    rows->data   = les_rows_take(rows, base, (size_t) rows->n*rows->row_bytes);
    rows->bytes += LES_ROWS_ALIGN - 1;
}

size_t les_rows_work_size(const struct ggml_tensor * op, int n_threads) {
    struct les_rows rows;
    if (op->op != GGML_OP_GET_ROWS) {
        return 0;
    }
    les_rows_init(&rows, op, NULL, n_threads);
    return rows.bytes;
}

static int32_t les_rows_id(const struct les_rows * rows, int64_t i) {
    return *(const int32_t *) ((const char *) rows->ids->data + (size_t) i*rows->ids->nb[0]);
}

// The first row wanted that is the same as this one. Steps are at most some thousands of tokens wide and take seconds then,
// so that looking at each of those before costs nothing that shows.
static int64_t les_rows_first(const struct les_rows * rows, int64_t i) {
    const int32_t id    = les_rows_id(rows, i);
    int64_t       first = 0;
    while (les_rows_id(rows, first) != id) {
        first++;
    }
    return first;
}

// Reads every nth distinct row.
static bool les_rows_read(const struct les_rows * rows, int ith, int nth) {
    const struct les_weight * w = rows->weight;
    for (int64_t i = ith; i < rows->n; i += nth) {
        const int32_t id    = les_rows_id(rows, i);
        const int64_t first = les_rows_first(rows, i);
        rows->index[i] = (int32_t) first;
        if (first < i) {
            continue;
        }
        if (id < 0 || id >= w->tensor->ne[1]) {
            les_model_errorf(w->model, "tensor %s has no row %d", w->tensor->name, id);
            return false;
        }
        if (!les_weight_read(w, rows->data + (size_t) i*rows->row_bytes, (uint64_t) id*rows->row_bytes, rows->row_bytes)) {
            return false;
        }
    }
    return true;
}

// Converts the rows as upstream does.
static void les_rows_convert(const struct les_rows * rows, struct ggml_compute_params * params, const struct ggml_tensor * op) {
    struct ggml_tensor matrix = *op->src[0];
    struct ggml_tensor ids    = *op->src[1];
    struct ggml_tensor dst    = *op;
    matrix.data  = rows->data;
    matrix.ne[1] = rows->n;
    ids.data     = rows->index;
    ids.nb[0]    = sizeof(int32_t);
    dst.src[0]   = &matrix;
    dst.src[1]   = &ids;
    ggml_compute_forward_get_rows(params, &dst);
}

// Thread 0: what comes after a failed node is computed on zeros, so that no router sorts what is not a number.
static void les_rows_fail(struct ggml_tensor * op) {
    if (!op->view_src) { // a view of the tensor has no memory either
        memset(op->data, 0, ggml_nbytes(op));
    }
    ggml_set_op_params_i32(op, LES_PARAM_FAILED, 1);
}

void les_cpu_rows(struct ggml_compute_params * params, struct ggml_tensor * op) {
    if (op->op != GGML_OP_GET_ROWS) {
        if (params->ith == 0) {
            const struct les_weight * w = les_weight_of(op->src[0]);
            les_model_errorf(w->model, "tensor %s stays in its file; %s cannot be computed on it", w->tensor->name, ggml_op_name(op->op));
            les_rows_fail(op);
        }
        return;
    }
    struct les_rows rows;
    les_rows_init(&rows, op, params->wdata, params->nth);
    GGML_ASSERT(params->wsize >= rows.bytes);
    if (params->ith == 0) {
        ggml_set_op_params_i32(op, LES_PARAM_FAILED, 0);
    }
    rows.failed[params->ith] = !les_rows_read(&rows, params->ith, params->nth);
    ggml_barrier(params->threadpool);
    for (int i = 0; i < params->nth; i++) {
        if (rows.failed[i]) {
            if (params->ith == 0) {
                les_rows_fail(op);
            }
            return;
        }
    }
    les_rows_convert(&rows, params, op);
}
