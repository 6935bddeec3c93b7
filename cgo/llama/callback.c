#include "callback.h"
#include "_cgo_export.h"

static bool les_llama_progress_forward(float progress, void * user_data) {
    return lesLlamaProgress(progress, (uintptr_t) user_data) != 0;
}

void les_llama_progress_set(struct llama_model_params * params, uintptr_t handle) {
    params->progress_callback           = les_llama_progress_forward;
    params->progress_callback_user_data = (void *) handle;
}
