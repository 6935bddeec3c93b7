// The kernels of LES inside the CPU backend.

#pragma once

#include "ggml-cpu-impl.h"
#include "ggml-backend.h"
#include "ggml.h"

#ifdef __cplusplus
extern "C" {
#endif

// Both return false when the node is not LES's.
bool les_cpu_work_size(int n_threads, const struct ggml_tensor * op, size_t * size);
bool les_cpu_compute_forward(struct ggml_compute_params * params, struct ggml_tensor * op);

// Whether an op reads streamed experts, and whether the CPU backend can run it on them.
bool les_cpu_has_streamed(const struct ggml_tensor * op);
bool les_cpu_supports_op(const struct ggml_tensor * op);

// The buffer type of expert tensors.
ggml_backend_buffer_type_t les_cpu_buffer_type(void);

#ifdef __cplusplus
}
#endif
