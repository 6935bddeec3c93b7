#include "les-mobile.h"

#include "lesext.h"

#include "ggml-backend.h"
#include "llama.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LES_MOBILE_UBATCH 128 // tokens of a prompt computed at once: the work buffer of a step grows with it

struct les_mobile {
    struct llama_model *   model;
    struct llama_context * lctx;
    struct llama_sampler * sampler;
    atomic_bool            canceled; // stored by any thread, loaded between tokens
    char                   error[1024];
};

// life

static struct llama_model * les_mobile_load(const struct les_mobile_params * params) {
    if (params->library_path) {
        ggml_backend_load_all_from_path(params->library_path);
    }
    struct lesext_options options = lesext_default_options();
    options.budget_bytes = params->budget_bytes;
    if (lesext_enable(&options) != 0) {
        return NULL;
    }
    return llama_model_load_from_file(params->model_path, llama_model_default_params());
}

static struct llama_context * les_mobile_context(struct llama_model * model, const struct les_mobile_params * params) {
    struct llama_context_params cparams = llama_context_default_params();
    cparams.n_ctx    = params->n_ctx > 0 ? (uint32_t) params->n_ctx : 2048;
    cparams.n_ubatch = LES_MOBILE_UBATCH;
    cparams.no_perf  = true;
    if (params->n_threads > 0) {
        cparams.n_threads       = params->n_threads;
        cparams.n_threads_batch = params->n_threads;
    }
    return llama_init_from_model(model, cparams);
}

struct les_mobile * les_mobile_open(const struct les_mobile_params * params, char * error, size_t n_error) {
    struct les_mobile * m = calloc(1, sizeof(*m));
    if (!m) {
        snprintf(error, n_error, "out of memory");
        return NULL;
    }
    m->model = les_mobile_load(params);
    m->lctx  = m->model ? les_mobile_context(m->model, params) : NULL;
    if (!m->lctx) {
        const char * reason = lesext_last_error();
        snprintf(error, n_error, "%s: %s", params->model_path, reason && *reason ? reason : "cannot be loaded; the log says more");
        les_mobile_close(m);
        return NULL;
    }
    m->sampler = llama_sampler_chain_init(llama_sampler_chain_default_params());
    llama_sampler_chain_add(m->sampler, llama_sampler_init_greedy());
    return m;
}

void les_mobile_close(struct les_mobile * m) {
    if (!m) {
        return;
    }
    if (m->sampler) {
        llama_sampler_free(m->sampler);
    }
    if (m->lctx) {
        llama_free(m->lctx);
    }
    if (m->model) {
        llama_model_free(m->model);
    }
    free(m);
}

// text

// Bytes at the end of a text that begin a character and do not end it.
static size_t les_mobile_unfinished(const char * text, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        const unsigned char c = (unsigned char) text[n - back];
        if ((c & 0xC0) == 0x80) {
            continue;
        }
        const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return length > back ? back : 0;
    }
    return 0;
}

// The prompt as the template of the model wants it, or as it is where there is none. The caller frees it.
static char * les_mobile_template(const struct les_mobile * m, const char * prompt) {
    const struct llama_chat_message message = { "user", prompt };
    const char *  tmpl = llama_model_chat_template(m->model, NULL);
    const int32_t n    = tmpl ? llama_chat_apply_template(tmpl, &message, 1, true, NULL, 0) : -1;
    char * text = malloc(n >= 0 ? (size_t) n + 1 : strlen(prompt) + 1);
    if (!text) {
        return NULL;
    }
    if (n < 0) {
        strcpy(text, prompt);
        return text;
    }
    llama_chat_apply_template(tmpl, &message, 1, true, text, n);
    text[n] = 0;
    return text;
}

// The tokens of a prompt, which the caller frees; NULL with the reason set.
static llama_token * les_mobile_tokens(struct les_mobile * m, const char * prompt, int32_t * n_tokens) {
    const struct llama_vocab * vocab = llama_model_get_vocab(m->model);
    char * text = les_mobile_template(m, prompt);
    const int32_t n_text = text ? (int32_t) strlen(text) : 0;
    const int32_t n      = text ? -llama_tokenize(vocab, text, n_text, NULL, 0, true, true) : 0;
    llama_token * tokens = n > 0 ? malloc((size_t) n*sizeof(*tokens)) : NULL;
    if (tokens) {
        *n_tokens = llama_tokenize(vocab, text, n_text, tokens, n, true, true);
    } else {
        snprintf(m->error, sizeof(m->error), text ? "the prompt is empty" : "out of memory");
    }
    free(text);
    return tokens;
}

// generation

static bool les_mobile_step(struct les_mobile * m, struct llama_batch batch) {
    const int32_t result = llama_decode(m->lctx, batch);
    if (result != 0) {
        const char * reason = lesext_last_error();
        snprintf(m->error, sizeof(m->error), "%s", reason && *reason ? reason : "the step failed; the log says more");
    }
    return result == 0;
}

static bool les_mobile_prefill(struct les_mobile * m, llama_token * tokens, int32_t n) {
    const int32_t wide = (int32_t) llama_n_batch(m->lctx);
    for (int32_t at = 0; at < n; at += wide) {
        const int32_t part = n - at < wide ? n - at : wide;
        if (!les_mobile_step(m, llama_batch_get_one(tokens + at, part))) {
            return false;
        }
    }
    return true;
}

// Hands out what is whole of the text, and keeps the rest. False if the app wants no more.
static bool les_mobile_emit(char * text, size_t * n, les_mobile_piece piece, void * user) {
    const size_t rest  = les_mobile_unfinished(text, *n);
    const size_t whole = *n - rest;
    if (whole == 0) {
        return true;
    }
    const char first = text[whole];
    text[whole] = 0;
    const bool more = piece(user, text);
    text[whole] = first;
    memmove(text, text + whole, rest);
    *n = rest;
    return more;
}

static int32_t les_mobile_decode(struct les_mobile * m, int32_t n_max, les_mobile_piece piece, void * user) {
    const struct llama_vocab * vocab = llama_model_get_vocab(m->model);
    char    text[512];
    size_t  n_text = 0;
    int32_t n      = 0;
    while (n < n_max && !atomic_load(&m->canceled)) {
        llama_token token = llama_sampler_sample(m->sampler, m->lctx, -1);
        if (llama_vocab_is_eog(vocab, token)) {
            break;
        }
        const int32_t n_piece = llama_token_to_piece(vocab, token, text + n_text, (int32_t) (sizeof(text) - n_text - 1), 0, false);
        n_text += n_piece > 0 ? (size_t) n_piece : 0;
        n++;
        if (!les_mobile_emit(text, &n_text, piece, user) || n == n_max) {
            break;
        }
        if (!les_mobile_step(m, llama_batch_get_one(&token, 1))) {
            return -1;
        }
    }
    return n;
}

int32_t les_mobile_generate(struct les_mobile * m, const char * prompt, int32_t n_max, les_mobile_piece piece, void * user) {
    int32_t n_tokens = 0;
    m->error[0] = 0;
    atomic_store(&m->canceled, false);
    llama_memory_clear(llama_get_memory(m->lctx), true);
    llama_token * tokens = les_mobile_tokens(m, prompt, &n_tokens);
    if (!tokens) {
        return -1;
    }
    int32_t n = -1;
    if ((uint32_t) n_tokens + (uint32_t) n_max > llama_n_ctx(m->lctx)) {
        snprintf(m->error, sizeof(m->error), "a prompt of %d tokens and an answer of %d are longer than the context of %u",
                n_tokens, n_max, llama_n_ctx(m->lctx));
    } else if (les_mobile_prefill(m, tokens, n_tokens)) {
        n = les_mobile_decode(m, n_max, piece, user);
    }
    free(tokens);
    return n;
}

const char * les_mobile_error(const struct les_mobile * m) {
    return m->error;
}

void les_mobile_cancel(struct les_mobile * m) {
    atomic_store(&m->canceled, true);
}

int32_t les_mobile_pressure(struct les_mobile * m, int32_t level) {
    return lesext_memory_pressure(m->model, (enum lesext_pressure) level);
}
