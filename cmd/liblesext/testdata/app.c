// An application on libllama that knows nothing of LES: it loads a model, decodes fixed tokens and prints what it saw, once
// for each cycle. It is built against the headers of llama.cpp alone.
//
//   app MODEL CYCLES
//
// Each cycle prints a line: a hash over all logits, resident memory in KiB, open files, threads, and 1 if the engine's
// library is in the process.

#include "llama.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_PROMPT 9
#define N_DECODE 20

static void log_problems(enum ggml_log_level level, const char * text, void * user) {
    static enum ggml_log_level last;
    (void) user;
    last = level == GGML_LOG_LEVEL_CONT ? last : level;
    if (last == GGML_LOG_LEVEL_ERROR || last == GGML_LOG_LEVEL_WARN || strncmp(text, "LES", 3) == 0) {
        fputs(text, stderr);
    }
}

static uint64_t hash(uint64_t sum, const void * data, size_t n) {
    const unsigned char * bytes = data;
    for (size_t i = 0; i < n; i++) {
        sum = (sum ^ bytes[i])*1099511628211u;
    }
    return sum;
}

// Decodes n tokens from a position on. Returns the hash, 0 on failure.
static uint64_t feed(struct llama_context * lctx, uint64_t sum, int pos, int n) {
    const int32_t n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(llama_get_model(lctx)));
    llama_token tokens[N_PROMPT];
    for (int i = 0; i < n; i++) {
        tokens[i] = (llama_token) ((pos + i)*7919 % n_vocab);
    }
    if (llama_decode(lctx, llama_batch_get_one(tokens, n)) != 0) {
        return 0;
    }
    const float * logits = llama_get_logits_ith(lctx, -1);
    return logits ? hash(sum, logits, (size_t) n_vocab*sizeof(*logits)) : 0;
}

static uint64_t run(const char * path) {
    struct llama_model_params mparams = llama_model_default_params();
    mparams.use_extra_bufts = false;
    struct llama_model * model = llama_model_load_from_file(path, mparams);
    if (!model) {
        return 0;
    }
    struct llama_context_params cparams = llama_context_default_params();
    cparams.n_ctx = 64;
    cparams.n_threads = cparams.n_threads_batch = 2;
    struct llama_context * lctx = llama_init_from_model(model, cparams);
    uint64_t sum = lctx ? feed(lctx, 14695981039346656037u, 0, N_PROMPT) : 0;
    for (int i = 0; i < N_DECODE && sum != 0; i++) {
        sum = feed(lctx, sum, N_PROMPT + i, 1);
    }
    llama_free(lctx);
    llama_model_free(model);
    return sum;
}

// The number behind a name in /proc/self/status.
static long status_of(const char * name) {
    char line[256];
    long value = -1;
    FILE * file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, strlen(name)) == 0) {
            value = atol(line + strlen(name));
        }
    }
    if (file) {
        fclose(file);
    }
    return value;
}

static long open_files(void) {
    long n = 0;
    DIR * dir = opendir("/proc/self/fd");
    while (dir && readdir(dir)) {
        n++;
    }
    if (dir) {
        closedir(dir);
    }
    return n;
}

static int engine_is_here(void) {
    char line[4096];
    int  here = 0;
    FILE * file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof(line), file)) {
        here |= strstr(line, "liblesext-engine") != NULL;
    }
    if (file) {
        fclose(file);
    }
    return here;
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        fputs("usage: app MODEL CYCLES\n", stderr);
        return 2;
    }
    llama_log_set(log_problems, NULL);
    llama_backend_init();
    for (int i = 0; i < atoi(argv[2]); i++) {
        const uint64_t sum = run(argv[1]);
        if (sum == 0) {
            return 1;
        }
        printf("%016llx %ld %ld %ld %d\n", (unsigned long long) sum, status_of("VmRSS:"), open_files(), status_of("Threads:"), engine_is_here());
        fflush(stdout);
    }
    llama_backend_free();
    return 0;
}
