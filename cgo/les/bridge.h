// Puts the Go callbacks into the table that C calls.

#pragma once

#include "les.h"

// Opens the model with the Go callbacks; handle is a runtime/cgo.Handle of the engine.
int32_t les_bridge_open(struct les_model * model, int32_t n_slots, int32_t n_slots_max, uintptr_t handle);
