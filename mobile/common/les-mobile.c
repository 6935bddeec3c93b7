#include "les-mobile.h"

#include "lesext.h"

#include "ggml-backend.h"
#include "llama.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LES_MOBILE_UBATCH 128 // tokens of a prompt computed at once: the work buffer of a step grows with it
#ifndef LES_MOBILE_TEXT
#    define LES_MOBILE_TEXT 64 // bytes of text at first; what tokens need beyond is added
#endif

struct les_mobile {
    struct llama_model *   model;
    struct llama_context * lctx;
    struct llama_sampler * sampler;
    _Atomic int64_t        asked;    // questions put; counted by any thread
    _Atomic int64_t        canceled; // up to which they are not wanted any more; stored by any thread, loaded between steps
    char                   error[1024];
};

// What is not handed out yet of an answer.
struct les_mobile_text {
    char * data; // with a byte more than size, for an end
    size_t n;
    size_t size;
};

// What LES said since its last error was cleared, or that the reason is elsewhere.
static const char * les_mobile_reason(const char * elsewhere) {
    const char * reason = lesext_last_error();
    return reason && *reason ? reason : elsewhere;
}

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
    cparams.n_outputs_max = 1; // logits of the last token only
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
    lesext_clear_error();
    m->model = les_mobile_load(params);
    m->lctx  = m->model ? les_mobile_context(m->model, params) : NULL;
    if (!m->lctx) {
        snprintf(error, n_error, "%s: %s", params->model_path, les_mobile_reason("cannot be loaded; the log says more"));
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
    lesext_clear_error();
    const int32_t result = llama_decode(m->lctx, batch);
    if (result != 0) {
        snprintf(m->error, sizeof(m->error), "%s", les_mobile_reason("the step failed; the log says more"));
    }
    return result == 0;
}

static bool les_mobile_wanted(struct les_mobile * m, const struct les_mobile_question * question) {
    return question->asked > atomic_load(&m->canceled);
}

// Computes a prompt, or as much of it as is wanted.
static bool les_mobile_prefill(struct les_mobile * m, const struct les_mobile_question * question, llama_token * tokens, int32_t n) {
    for (int32_t at = 0; at < n && les_mobile_wanted(m, question); at += LES_MOBILE_UBATCH) {
        const int32_t part = n - at < LES_MOBILE_UBATCH ? n - at : LES_MOBILE_UBATCH;
        if (!les_mobile_step(m, llama_batch_get_one(tokens + at, part))) {
            return false;
        }
    }
    return true;
}

static bool les_mobile_grow(struct les_mobile_text * text, size_t size) {
    char * data = realloc(text->data, size + 1);
    if (data) {
        text->data = data;
        text->size = size;
    }
    return data != NULL;
}

// Adds a token's text. False if there is no memory for it.
static bool les_mobile_add(struct les_mobile_text * text, const struct llama_vocab * vocab, llama_token token) {
    int32_t n = llama_token_to_piece(vocab, token, text->data + text->n, (int32_t) (text->size - text->n), 0, false);
    if (n < 0) {
        if (!les_mobile_grow(text, text->n + (size_t) -n)) {
            return false;
        }
        n = llama_token_to_piece(vocab, token, text->data + text->n, -n, 0, false);
    }
    text->n += n > 0 ? (size_t) n : 0;
    return true;
}

// Hands out what is whole of the text, and keeps the rest. False if the app wants no more.
static bool les_mobile_emit(struct les_mobile_text * text, les_mobile_piece piece, void * user) {
    const size_t rest  = les_mobile_unfinished(text->data, text->n);
    const size_t whole = text->n - rest;
    if (whole == 0) {
        return true;
    }
    const char first = text->data[whole];
    text->data[whole] = 0;
    const bool more = piece(user, text->data);
    text->data[whole] = first;
    memmove(text->data, text->data + whole, rest);
    text->n = rest;
    return more;
}

static int32_t les_mobile_decode(struct les_mobile * m, const struct les_mobile_question * question, les_mobile_piece piece, void * user) {
    const struct llama_vocab * vocab = llama_model_get_vocab(m->model);
    struct les_mobile_text text = { 0 };
    bool    going = les_mobile_grow(&text, LES_MOBILE_TEXT);
    int32_t n     = going ? 0 : -1;
    while (going && n < question->n_max && les_mobile_wanted(m, question)) {
        llama_token token = llama_sampler_sample(m->sampler, m->lctx, -1);
        if (llama_vocab_is_eog(vocab, token)) {
            break;
        }
        n     = les_mobile_add(&text, vocab, token) ? n + 1 : -1;
        going = n >= 0 && les_mobile_emit(&text, piece, user);
        if (going && n < question->n_max && !les_mobile_step(m, llama_batch_get_one(&token, 1))) {
            going = false;
            n     = -1;
        }
    }
    free(text.data);
    return n;
}

int64_t les_mobile_ask(struct les_mobile * m) {
    return atomic_fetch_add(&m->asked, 1) + 1;
}

int32_t les_mobile_generate(struct les_mobile * m, const struct les_mobile_question * question, les_mobile_piece piece, void * user) {
    int32_t n_tokens = 0;
    m->error[0] = 0;
    llama_memory_clear(llama_get_memory(m->lctx), true);
    llama_token * tokens = les_mobile_tokens(m, question->prompt, &n_tokens);
    if (!tokens) {
        return -1;
    }
    int32_t n = -1;
    if ((uint32_t) n_tokens + (uint32_t) question->n_max > llama_n_ctx(m->lctx)) {
        snprintf(m->error, sizeof(m->error), "a prompt of %d tokens and an answer of %d are longer than the context of %u",
                n_tokens, question->n_max, llama_n_ctx(m->lctx));
    } else if (les_mobile_prefill(m, question, tokens, n_tokens)) {
        n = les_mobile_decode(m, question, piece, user);
    }
    if (n < 0 && !m->error[0]) {
        snprintf(m->error, sizeof(m->error), "out of memory");
    }
    free(tokens);
    return n;
}

const char * les_mobile_error(const struct les_mobile * m) {
    return m->error;
}

void les_mobile_cancel(struct les_mobile * m) {
    const int64_t asked = atomic_load(&m->asked);
    int64_t before = atomic_load(&m->canceled);
    while (before < asked && !atomic_compare_exchange_weak(&m->canceled, &before, asked)) {
    }
}

int32_t les_mobile_pressure(struct les_mobile * m, int32_t level) {
    return lesext_memory_pressure(m->model, (enum lesext_pressure) level);
}
