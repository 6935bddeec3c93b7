// The models of this process that an engine streams, and, while nothing has been loaded since, those that it did.

#pragma once

#include "les-host.h"

#ifdef __cplusplus
extern "C" {
#endif

// Remembers a model that was loaded from a path and has this number in the engine. False where there is no memory for it.
bool les_hosted_add(const struct llama_model * model, uintptr_t id, const char * path);

// The engine's number of a model, 0 for one that is not streamed.
uintptr_t les_hosted_id(const struct llama_model * model);

// Forgets a model, or with told keeps its plan and counters, until the next one is added or one that has computed since ends:
// a program that drops a model and goes on with another one did not end.
void les_hosted_end(const struct llama_model * model, const struct les_told * told);

// Remembers how many lookups a model had when another one ended.
void les_hosted_mark(const struct llama_model * model, int64_t lookups);

// The model that was loaded next after the load with the number in told, which is 0 for the first. False at the end. Where
// models are streamed, those that were are left out.
bool les_hosted_next(struct les_told * told);

#ifdef __cplusplus
}
#endif
