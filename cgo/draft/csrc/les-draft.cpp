// The drafters are upstream's; this file opens them, keeps their caches at the
// place where the target is, and reads the confidences of a block.
#include "les-fits.h"

#include "common.h"
#include "llama-ext.h"
#include "log.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

struct les_draft {
    common_speculative_type type = COMMON_SPECULATIVE_TYPE_NONE;
    common_params_speculative params;
    llama_context_ptr lctx;         // of the drafter, may be null
    common_speculative_ptr spec;
    llama_tokens prompt;            // reused by each draft
    llama_tokens result;
    bool fresh = false;             // a draft was made that accept has not seen
    bool confident = false;         // it has a confidence head
    bool broken = false;            // upstream threw in the middle of a change; it drafts no more
};

namespace {

// What upstream tells while it opens a drafter; failures are exceptions.
void keep_quiet() { common_log_set_verbosity_thold(LOG_LEVEL_ERROR); }

void open_context(les_draft & d, const les_draft_params & p, const llama_model * target) {
    common_params whole;
    whole.n_ctx       = llama_n_ctx(p.target);
    whole.n_batch     = llama_n_batch(p.target);
    whole.n_ubatch    = llama_n_ubatch(p.target);
    whole.n_parallel  = 1;
    whole.speculative = d.params;
    whole.cpuparams.n_threads = whole.cpuparams_batch.n_threads = p.n_threads;
    auto cparams = common_context_params_to_llama(common_base_params_to_speculative(whole));
    cparams.n_ctx     = whole.n_ctx;
    cparams.ctx_other = p.target;
    if (d.type == COMMON_SPECULATIVE_TYPE_DRAFT_MTP) {
        cparams.ctx_type = LLAMA_CONTEXT_TYPE_MTP;
    }
    // A drafter with recurrent layers takes back as much as it drafts.
    cparams.n_rs_seq = d.type == COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE ? p.n_max : 0;
    d.lctx.reset(llama_init_from_model(p.model ? p.model : const_cast<llama_model *>(target), cparams));
    if (!d.lctx) {
        refuse("llama.cpp cannot make a context for the drafter");
    }
}

void open(les_draft & d, const les_draft_params & p) {
    const llama_model * target = llama_get_model(p.target);
    d.type = common_speculative_type_from_name(p.type);
    les_draft_check(d.type, p.model, target, p.n_max);
    d.params.types = { d.type };
    d.params.draft.n_max = p.n_max;
    d.params.draft.n_min = 0;
    d.params.draft.backend_sampling = false;
    d.params.ngram_simple.size_m = d.params.ngram_map_k.size_m = d.params.ngram_map_k4v.size_m = p.n_max;
    d.params.ngram_mod.n_max = p.n_max;
    d.params.ngram_mod.n_min = 1;
    if (!is_ngram(d.type)) {
        d.params.draft.mparams.path = "drafter"; // loaded already; upstream looks whether there is one
        open_context(d, p, target);
    }
    d.params.draft.ctx_tgt = p.target;
    d.params.draft.ctx_dft = d.lctx.get();
    d.spec.reset(common_speculative_init(d.params, 1));
    if (!d.spec) {
        refuse("llama.cpp does not start this drafter");
    }
    d.confident = d.type == COMMON_SPECULATIVE_TYPE_DRAFT_DSPARK && meta(p.model, "dflash.has_confidence_head") != "false";
}

llama_pos end_of(const les_draft & d) {
    return llama_memory_seq_pos_max(llama_get_memory(d.lctx.get()), 0) + 1;
}

// Puts the drafter's cache to the place where a batch begins: what is behind it
// was refused. What is missing before it is read anew where tokens are enough
// for that, or else all is forgotten.
bool align(les_draft & d, llama_pos begin, const llama_token * tokens) {
    auto * memory = llama_get_memory(d.lctx.get());
    if (!llama_memory_seq_rm(memory, 0, begin, -1)) {
        llama_memory_clear(memory, true);
    }
    if (end_of(d) == begin) {
        return true;
    }
    if (d.type != COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE) {
        llama_memory_clear(memory, true);
        return true;
    }
    const int32_t n_batch = llama_n_batch(d.lctx.get());
    for (llama_pos at = end_of(d); at < begin; at += n_batch) {
        const int32_t n = std::min<int32_t>(n_batch, begin - at);
        if (llama_decode(d.lctx.get(), llama_batch_get_one(const_cast<llama_token *>(tokens) + at, n)) != 0) {
            return false;
        }
    }
    return true;
}

// Takes out of the drafter's cache what it drafted itself.
void take_back(les_draft & d, llama_pos begin) {
    if (d.lctx) {
        llama_memory_seq_rm(llama_get_memory(d.lctx.get()), 0, begin, -1);
    }
}

// Drafts into d.result, and returns how much of it is wanted.
int32_t make(les_draft & d, const llama_token * tokens, int32_t n_tokens, int32_t n_max) {
    d.prompt.assign(tokens, tokens + n_tokens - 1);
    d.result.clear();
    take_back(d, n_tokens - 1); // what the target refused of the last draft is still there
    if (d.lctx && end_of(d) != n_tokens - 1) {
        return 0; // not up to date
    }
    auto & request = common_speculative_get_draft_params(d.spec.get(), 0);
    request.drafting = true;
    request.n_max    = n_max;
    request.pos0     = n_tokens - 1;
    request.id_last  = tokens[n_tokens - 1];
    request.prompt   = &d.prompt;
    request.result   = &d.result;
    common_speculative_draft(d.spec.get());
    return std::min<int32_t>(n_max, d.result.size());
}

// The confidences of n drafted tokens, and their number: n or 0.
int32_t read_confidences(const les_draft & d, int32_t n, float * conf) {
    const float * rows = d.confident && n > 0 ? llama_get_embeddings_nextn(d.lctx.get()) : nullptr;
    if (rows == nullptr) {
        return 0;
    }
    const llama_model * model = llama_get_model(d.lctx.get());
    const int32_t width = llama_model_n_embd(model);
    // All of the block that was not cut; without an anchor position 0 says nothing.
    const int32_t skip = meta(model, "dflash.sample_from_anchor") == "false";
    for (int32_t i = 0; i < n; i++) {
        const float c = rows[(size_t) (i + skip) * width];
        conf[i] = c >= 0 && c <= 1 ? c : 0; // also where it is no number
    }
    return n;
}

} // namespace

bool les_draft_type_known(const char * type) {
    const auto t = common_speculative_type_from_name(type);
    return t != COMMON_SPECULATIVE_TYPE_COUNT && t != COMMON_SPECULATIVE_TYPE_NONE;
}

bool les_draft_type_needs_model(const char * type) {
    const auto t = common_speculative_type_from_name(type);
    return !is_ngram(t) && t != COMMON_SPECULATIVE_TYPE_DRAFT_MTP;
}

bool les_draft_type_uses_nextn(const char * type) {
    return common_speculative_type_from_name(type) == COMMON_SPECULATIVE_TYPE_DRAFT_MTP;
}

int32_t les_draft_type_of_file(const char * path, char * buf, size_t size) {
    try {
        keep_quiet();
        const auto types = common_speculative_types_from_gguf(path);
        const std::string name = common_speculative_type_to_str(types.empty() ? COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE : types[0]);
        put(buf, size, name.c_str());
        return (int32_t) name.size();
    } catch (const std::exception &) {
        return -1;
    }
}

struct les_draft * les_draft_open(const struct les_draft_params * params, char * error, size_t size) {
    auto * d = new les_draft;
    try {
        keep_quiet();
        open(*d, *params);
        return d;
    } catch (const std::exception & reason) {
        put(error, size, reason.what());
    }
    delete d;
    return nullptr;
}

void les_draft_close(struct les_draft * draft) {
    if (draft != nullptr) {
        draft->spec.reset();
        delete draft;
    }
}

struct llama_context * les_draft_context(const struct les_draft * draft) {
    return draft->lctx.get();
}

int32_t les_draft_max(const struct les_draft * draft) {
    return std::min(common_speculative_n_max(draft->spec.get()), draft->params.draft.n_max);
}

bool les_draft_sequential(const struct les_draft * draft) {
    return !is_block(draft->type) && !is_ngram(draft->type);
}

void les_draft_clear(struct les_draft * draft) {
    if (draft->lctx) {
        llama_memory_clear(llama_get_memory(draft->lctx.get()), true);
    }
    draft->fresh = false;
}

void les_draft_begin(struct les_draft * draft, const llama_token * prompt, int32_t n_prompt) {
    try {
        common_speculative_begin(draft->spec.get(), 0, llama_tokens(prompt, prompt + n_prompt));
    } catch (...) {
        draft->broken = true;
    }
}

int32_t les_draft_process(struct les_draft * draft, struct llama_batch batch, const llama_token * tokens, int32_t n_tokens) {
    try {
        if (batch.n_tokens == 0) {
            return 0;
        }
        if (draft->lctx && (n_tokens < batch.pos[0] || !align(*draft, batch.pos[0], tokens))) {
            return -1;
        }
        return common_speculative_process(draft->spec.get(), batch) ? 0 : -1;
    } catch (const std::exception &) {
        return -1;
    }
}

int32_t les_draft_make(struct les_draft * draft, const llama_token * tokens, int32_t n_tokens, int32_t n_max,
                       llama_token * out, float * conf, int32_t * n_conf) {
    *n_conf = 0;
    draft->fresh = false;
    if (draft->broken) {
        return 0;
    }
    try {
        const int32_t n = make(*draft, tokens, n_tokens, n_max);
        std::copy_n(draft->result.begin(), n, out);
        *n_conf = read_confidences(*draft, n, conf);
        take_back(*draft, n_tokens - 1);
        draft->fresh = n > 0;
        return n;
    } catch (...) {
        *n_conf = 0;
        return 0;
    }
}

void les_draft_accept(struct les_draft * draft, int32_t n_accepted) {
    if (!draft->fresh) {
        return;
    }
    draft->fresh = false;
    try {
        common_speculative_accept(draft->spec.get(), 0, (uint16_t) n_accepted);
    } catch (...) {
        draft->broken = true;
    }
}
