// Callbacks that llama.cpp calls while a model loads; see model.go.
#ifndef LES_LLAMA_CALLBACK_H
#define LES_LLAMA_CALLBACK_H

#include <stdint.h>
#include "llama.h"

// Makes loading report to the Go handle, which must stay valid during the load.
void les_llama_progress_set(struct llama_model_params * params, uintptr_t handle);

#endif
