// Writes the logits of fed tokens, for scripts/check-upstream.sh: built twice, against the stock library and against
// ours, it shows that the patches change no bit where LES is off.
//
//   logits MODEL OUT THREADS UBATCH PROMPT GEN plain|default
//
// The prompt is one batch, then GEN tokens follow one by one. "plain" reads weights into plain CPU buffers, "default"
// is what llama.cpp does by itself (mapped, rearranged where it has faster kernels for that).

#include "llama.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct job {
    struct llama_context * lctx;
    struct llama_batch     batch;
    FILE *                 out;
    int32_t                n_vocab;
    int32_t                pos;
    uint64_t               random;
};

static void fail(const char * what) {
    fprintf(stderr, "logits: %s\n", what);
    exit(1);
}

static void log_errors(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

static int32_t number(const char * text) {
    char * end = NULL;
    const long value = strtol(text, &end, 10);
    if (*end || value < 0 || value > 1 << 20) {
        fail("not a number from 0 to 1048576");
    }
    return (int32_t) value;
}

// Decodes the next n tokens as one batch and writes the logits of each.
static void feed(struct job * job, int32_t n) {
    job->batch.n_tokens = n;
    for (int32_t i = 0; i < n; i++) {
        job->random = job->random * 6364136223846793005u + 1442695040888963407u;
        job->batch.token[i]     = (llama_token) ((job->random >> 33) % (uint64_t) job->n_vocab);
        job->batch.pos[i]       = job->pos++;
        job->batch.n_seq_id[i]  = 1;
        job->batch.seq_id[i][0] = 0;
        job->batch.logits[i]    = 1;
    }
    if (llama_decode(job->lctx, job->batch) != 0) {
        fail("decoding failed");
    }
    for (int32_t i = 0; i < n; i++) {
        const float * logits = llama_get_logits_ith(job->lctx, i);
        if (!logits || fwrite(logits, sizeof(*logits), (size_t) job->n_vocab, job->out) != (size_t) job->n_vocab) {
            fail("cannot write the logits");
        }
    }
}

int main(int argc, char ** argv) {
    if (argc != 8) {
        fail("usage: logits MODEL OUT THREADS UBATCH PROMPT GEN plain|default");
    }
    const int32_t n_prompt = number(argv[5]);
    const int32_t n_gen    = number(argv[6]);
    llama_log_set(log_errors, NULL);
    llama_backend_init();
    struct llama_model_params mparams = llama_model_default_params();
    if (strcmp(argv[7], "plain") == 0) {
        mparams.load_mode       = LLAMA_LOAD_MODE_NONE;
        mparams.use_extra_bufts = false;
    }
    struct llama_model * model = llama_model_load_from_file(argv[1], mparams);
    if (!model) {
        fail("cannot load the model");
    }
    struct llama_context_params cparams = llama_context_default_params();
    cparams.n_ctx     = (uint32_t) (n_prompt + n_gen);
    cparams.n_batch   = (uint32_t) n_prompt;
    cparams.n_ubatch  = (uint32_t) number(argv[4]);
    cparams.n_threads = cparams.n_threads_batch = number(argv[3]);
    struct job job = { .lctx = llama_init_from_model(model, cparams), .batch = llama_batch_init(n_prompt, 0, 1),
        .out = fopen(argv[2], "wb"), .n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model)), .random = 1 };
    if (!job.lctx || !job.out) {
        fail("cannot make the context or the file");
    }
    feed(&job, n_prompt);
    for (int32_t i = 0; i < n_gen; i++) {
        feed(&job, 1);
    }
    if (fclose(job.out) != 0) {
        fail("cannot write the logits");
    }
    llama_batch_free(job.batch);
    llama_free(job.lctx);
    llama_model_free(model);
    llama_backend_free();
    return 0;
}
