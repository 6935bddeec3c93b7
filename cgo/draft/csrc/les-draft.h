// C interface to the drafters of llama.cpp (common/speculative.h), which are C++.
//
// Life: open after the target's context is made, begin for each request, then
// for each step process, draft and verify; close before the target's context.
// Calls of one drafter must not overlap.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llama.h"

#ifdef __cplusplus
extern "C" {
#endif

struct les_draft;

struct les_draft_params {
    const char           * type;   // as upstream names it, such as draft-dspark or ngram-simple
    struct llama_context * target;
    struct llama_model   * model;  // of the drafter; NULL where the type needs none
    int32_t                n_max;  // most tokens of a draft
    int32_t                n_threads;
};

// Whether the type is known, and what it needs. The types are upstream's.
bool les_draft_type_known(const char * type);
bool les_draft_type_needs_model(const char * type);
bool les_draft_type_uses_nextn(const char * type);

// The type that fits a model file, written to buf; the length, or -1 if the file
// cannot be read.
int32_t les_draft_type_of_file(const char * path, char * buf, size_t size);

// Whether a drafter fits a model, drafts of any length; neither needs its weights. If not, the reason is in error.
bool les_draft_fits(const char * type, const struct llama_model * model, const struct llama_model * target, char * error, size_t size);

// NULL on failure, with the reason in error.
struct les_draft * les_draft_open(const struct les_draft_params * params, char * error, size_t size);
void               les_draft_close(struct les_draft * draft);

// The drafter's own context; NULL where it has none. Nothing was computed in it after open.
struct llama_context * les_draft_context(const struct les_draft * draft);

// What the implementation allows, at most n_max.
int32_t les_draft_max(const struct les_draft * draft);

// Whether a longer draft takes longer: false where a block is drafted at once.
bool les_draft_sequential(const struct les_draft * draft);

// Forgets the request before this one.
void les_draft_clear(struct les_draft * draft);

// Tells that the prompt was processed.
void les_draft_begin(struct les_draft * draft, const llama_token * prompt, int32_t n_prompt);

// Follows a batch that the target has just decoded. tokens are all of the
// sequence up to the batch: a drafter that was not kept up to date reads what it
// missed, or goes on without. Returns 0, or -1 on failure.
int32_t les_draft_process(struct les_draft * draft, struct llama_batch batch, const llama_token * tokens, int32_t n_tokens);

// Drafts at most n_max tokens to follow tokens[n_tokens-1], which the target has
// not computed. Returns their number, 0 if the drafter fails. *n_conf confidences
// between 0 and 1 are written to conf.
int32_t les_draft_make(struct les_draft * draft, const llama_token * tokens, int32_t n_tokens, int32_t n_max,
                       llama_token * out, float * conf, int32_t * n_conf);

// Tells how many tokens of the last draft were accepted.
void les_draft_accept(struct les_draft * draft, int32_t n_accepted);

// The grammar (GBNF) of a JSON schema, to be freed with les_draft_free; NULL with the reason in error.
char * les_draft_grammar(const char * schema, char * error, size_t size);
void   les_draft_free(char * text);

#ifdef __cplusplus
}
#endif
