// Whether a drafter fits the model it is to draft for.
#pragma once

#include "les-draft.h"

#include "speculative.h"

#include <cstdio>
#include <stdexcept>
#include <string>

// Throws the reason where it does not. model is the drafter's, NULL where it has none; n_max is the most tokens of a draft.
void les_draft_check(common_speculative_type type, const llama_model * model, const llama_model * target, int32_t n_max);

static inline bool is_block(common_speculative_type type) {
    return type == COMMON_SPECULATIVE_TYPE_DRAFT_DFLASH || type == COMMON_SPECULATIVE_TYPE_DRAFT_DSPARK;
}

static inline bool is_ngram(common_speculative_type type) {
    return type >= COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE;
}

static inline std::string meta(const llama_model * model, const char * key) {
    char buf[64] = {};
    return llama_model_meta_val_str(model, key, buf, sizeof(buf)) < 0 ? "" : buf;
}

static inline void refuse(const std::string & reason) { throw std::runtime_error(reason); }

static inline std::string number(int64_t n) { return std::to_string(n); }

static inline void put(char * buf, size_t size, const char * text) {
    if (size > 0) {
        snprintf(buf, size, "%s", text);
    }
}
