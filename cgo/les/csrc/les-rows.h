// GET_ROWS on a tensor that stays in its file.

#pragma once

#include "les-impl.h"

#include "ggml-cpu-impl.h"

// True if the op reads a tensor of rows.
bool   les_rows_is(const struct ggml_tensor * op);
size_t les_rows_work_size(const struct ggml_tensor * op, int n_threads);
void   les_cpu_rows(struct ggml_compute_params * params, struct ggml_tensor * op);
