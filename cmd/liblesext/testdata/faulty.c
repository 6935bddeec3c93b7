// A model whose file is cut off while it is streamed, and whole again afterwards. Prints "ok" when the decode in between failed
// and the ones around it did not.
//
//   faulty COPY_OF_MODEL

#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void log_errors(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

static int decode(struct llama_context * lctx, float * first) {
    llama_token tokens[] = { 5, 6, 7, 8, 9 };
    llama_memory_clear(llama_get_memory(lctx), true);
    const int code = llama_decode(lctx, llama_batch_get_one(tokens, 5));
    *first = code == 0 ? llama_get_logits_ith(lctx, -1)[0] : 0;
    return code;
}

static char * read_all(const char * path, size_t * n) {
    FILE * file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    *n = (size_t) ftell(file);
    rewind(file);
    char * data = malloc(*n);
    const int whole = data && fread(data, 1, *n, file) == *n;
    fclose(file);
    return whole ? data : NULL;
}

static int write_all(const char * path, const char * data, size_t n) {
    FILE * file = fopen(path, "r+b");
    const int whole = file && fwrite(data, 1, n, file) == n;
    return file && fclose(file) == 0 && whole;
}

int main(int argc, char ** argv) {
    size_t n;
    char * data = argc == 2 ? read_all(argv[1], &n) : NULL;
    llama_log_set(log_errors, NULL);
    llama_backend_init();
    struct llama_model * model = data ? llama_model_load_from_file(argv[1], llama_model_default_params()) : NULL;
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    struct llama_context * lctx = model ? llama_init_from_model(model, params) : NULL;
    float before, between, after;
    if (!lctx || decode(lctx, &before) != 0) {
        return 1;
    }
    if (truncate(argv[1], (off_t) n/8) != 0 || decode(lctx, &between) == 0) {
        puts("a decode went on without its bytes");
        return 1;
    }
    if (!write_all(argv[1], data, n) || decode(lctx, &after) != 0 || after != before) {
        puts("the decode after it failed");
        return 1;
    }
    puts("ok");
    llama_free(lctx);
    llama_model_free(model);
    free(data);
    return 0;
}
