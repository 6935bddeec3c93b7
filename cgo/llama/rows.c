#include "quantize.h"

static void les_llama_floats(enum ggml_type type, const void * rows, float * floats, int64_t n) {
    if (type == GGML_TYPE_F32) {
        for (int64_t i = 0; i < n; i++) {
            floats[i] = ((const float *) rows)[i];
        }
        return;
    }
    ggml_get_type_traits(type)->to_float(rows, floats, n);
}

enum les_llama_rows_result les_llama_rows_convert(const struct les_llama_rows * rows) {
    const int64_t n = rows->n_rows*rows->n_columns;
    const size_t n_src = rows->n_rows*ggml_row_size((enum ggml_type) rows->from, rows->n_columns);
    if (!ggml_validate_row_data((enum ggml_type) rows->from, rows->src, n_src)) {
        return LES_ROWS_BAD_SOURCE;
    }
    les_llama_floats((enum ggml_type) rows->from, rows->src, rows->floats, n);
    const size_t n_dst = ggml_quantize_chunk((enum ggml_type) rows->to, rows->floats, rows->dst, 0, rows->n_rows, rows->n_columns, rows->weights);
    return ggml_validate_row_data((enum ggml_type) rows->to, rows->dst, n_dst) ? LES_ROWS_OK : LES_ROWS_BAD_RESULT;
}

bool les_llama_rows_valid(int32_t type, const void * rows, size_t n_bytes) {
    return ggml_validate_row_data((enum ggml_type) type, rows, n_bytes);
}

void les_llama_rows_lost(const struct les_llama_rows * rows, double * lost, double * all) {
    const int64_t n = rows->n_rows*rows->n_columns;
    float * back = rows->floats + n;
    les_llama_floats((enum ggml_type) rows->to, rows->dst, back, n);
    for (int64_t i = 0; i < n; i++) {
        const double weight     = rows->weights ? rows->weights[i % rows->n_columns] : 1.0;
        const double difference = rows->floats[i] - back[i];
        *lost += weight*difference*difference;
        *all  += weight*rows->floats[i]*rows->floats[i];
    }
}
