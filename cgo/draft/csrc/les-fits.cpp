// What upstream would assert later, fail each request with, or not notice at all.
#include "les-fits.h"

#include "llama-ext.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace {

// The architectures whose graphs hand out the inputs of layers; upstream aborts
// where others are asked for them.
bool gives_layer_inputs(const char * arch) {
    static const char * const known[] = {
        "bailingmoe3", "deepseek4", "gemma4", "hunyuan_vl", "lfm2", "lfm2moe", "llama", "minimax01", "minimax-m2", "muse-glimmer",
        "nanbeige", "nemotron_h", "nemotron_h_moe", "gpt-oss", "qwen3", "qwen35", "qwen35moe", "qwen3moe", "qwen3next", "qwen4exp",
    };
    return std::any_of(std::begin(known), std::end(known), [&](const char * name) { return strcmp(name, arch) == 0; });
}

void check_width(int32_t ours, int32_t theirs) {
    if (ours != theirs) {
        refuse("the drafter is made for a model of width " + number(ours) + ", this one has " + number(theirs));
    }
}

// The layers whose inputs a drafter reads; most is the last one it may name.
void check_layers(const llama_model * model, const llama_model * target, int32_t most) {
    const std::string arch = meta(target, "general.architecture");
    if (!gives_layer_inputs(arch.c_str())) {
        refuse("llama.cpp gives no inputs of layers for the architecture " + arch + ", which a drafter of this type needs");
    }
    if (llama_model_target_layer_ids_n(model) == 0) {
        refuse("the drafter does not say which layers of the model it reads");
    }
    for (uint32_t i = 0; i < llama_model_target_layer_ids_n(model); i++) {
        const int32_t id = llama_model_target_layer_ids(model)[i];
        if (id < 0 || id > most) {
            refuse("the drafter reads layer " + number(id) + " of a model that has " + number(llama_model_n_layer(target)) + ": it was made for another one");
        }
    }
}

// What upstream would assert later, or not notice at all.
void check_block(const llama_model * model, const llama_model * target, int32_t n_max, bool dspark) {
    const std::string arch = meta(model, "general.architecture");
    if (arch != "dflash") {
        refuse("a drafter of this type has the architecture dflash, the file has " + arch);
    }
    const std::string block = meta(model, "dflash.block_size");
    if (block == "" || std::atoi(block.c_str()) < 1) {
        refuse("the drafter does not say its block size (key dflash.block_size)");
    }
    const bool anchor = dspark && meta(model, "dflash.sample_from_anchor") != "false";
    const int32_t most = std::atoi(block.c_str()) - (anchor ? 0 : 1);
    if (n_max > most) {
        refuse("drafts of " + number(n_max) + " tokens are asked for, the drafter was made for " + number(most));
    }
    check_layers(model, target, llama_model_n_layer(target) - 1);
    check_width(llama_model_n_embd(model), llama_model_n_embd(target));
}

void check_eagle3(const llama_model * model, const llama_model * target) {
    const std::string arch = meta(model, "general.architecture");
    if (arch != "eagle3") {
        refuse("a drafter of this type has the architecture eagle3, the file has " + arch);
    }
    check_layers(model, target, llama_model_n_layer(target)); // one more is the output of the last
    check_width(std::atoi(meta(model, "eagle3.target_hidden_size").c_str()), llama_model_n_embd(target));
}

// The tokens must be the same, or no draft would mean anything.
void check_vocab(const llama_model * model, const llama_model * target) {
    const llama_vocab * ours = llama_model_get_vocab(model), * theirs = llama_model_get_vocab(target);
    if (llama_vocab_n_tokens(ours) != llama_vocab_n_tokens(theirs)) {
        refuse("the drafter has a vocabulary of " + number(llama_vocab_n_tokens(ours)) + " tokens, the model one of " + number(llama_vocab_n_tokens(theirs)));
    }
    for (llama_token i = 0; i < llama_vocab_n_tokens(ours); i++) {
        if (strcmp(llama_vocab_get_text(ours, i), llama_vocab_get_text(theirs, i)) != 0) {
            refuse("token " + number(i) + " of the drafter's vocabulary is another one than the model's");
        }
    }
}

} // namespace

void les_draft_check(common_speculative_type type, const llama_model * model, const llama_model * target, int32_t n_max) {
    if (n_max < 1) {
        refuse("a draft needs at least one token");
    }
    if (is_ngram(type)) {
        return;
    }
    if (type == COMMON_SPECULATIVE_TYPE_DRAFT_MTP) {
        if (llama_model_n_layer_nextn(model ? model : target) < 1) {
            refuse("the model has no NextN block to draft with");
        }
    } else if (model == nullptr) {
        refuse("a drafter of this type needs a model file");
    }
    if (model == nullptr) {
        return;
    }
    check_vocab(model, target);
    const std::string arch = meta(model, "general.architecture");
    if (is_block(type)) {
        check_block(model, target, n_max, type == COMMON_SPECULATIVE_TYPE_DRAFT_DSPARK);
    } else if (type == COMMON_SPECULATIVE_TYPE_DRAFT_EAGLE3) {
        check_eagle3(model, target);
    } else if (type == COMMON_SPECULATIVE_TYPE_DRAFT_MTP) {
        check_width(llama_model_n_embd_out(model), llama_model_n_embd_out(target));
    } else if (type == COMMON_SPECULATIVE_TYPE_DRAFT_SIMPLE && (arch == "dflash" || arch == "eagle3")) {
        refuse("the file has the architecture " + arch + ", which cannot draft by itself");
    }
}

bool les_draft_fits(const char * type, const struct llama_model * model, const struct llama_model * target, char * error, size_t size) {
    try {
        les_draft_check(common_speculative_type_from_name(type), model, target, 1);
        return true;
    } catch (const std::exception & reason) {
        put(error, size, reason.what());
    }
    return false;
}
