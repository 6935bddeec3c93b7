/* Generates text with a model whose experts stay in its file.
 *
 *   cc main.c $(pkg-config --cflags --libs lesext) -o embed
 *   ./embed model.gguf 4G "func main() {"
 */

#include <lesext.h>
#include <llama.h>

#include <stdio.h>
#include <string.h>

#define N_CONTEXT 256
#define N_TOKENS  24

/* llama.cpp says a lot; here, only what went wrong. */
static void log_errors(enum ggml_log_level level, const char * text, void * user) {
    (void) user;
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

static int generate(struct llama_context * lctx, const char * prompt) {
    const struct llama_vocab * vocab = llama_model_get_vocab(llama_get_model(lctx));
    llama_token tokens[N_CONTEXT - N_TOKENS];
    int32_t n = llama_tokenize(vocab, prompt, (int32_t) strlen(prompt), tokens, N_CONTEXT - N_TOKENS, true, true);
    if (n <= 0) {
        fputs("embed: the prompt is empty or too long\n", stderr);
        return 1;
    }
    struct llama_sampler * greedy = llama_sampler_init_greedy();
    int failed = 0;
    for (int i = 0; i < N_TOKENS; i++) {
        failed = llama_decode(lctx, llama_batch_get_one(tokens, n)) != 0;
        if (failed) {
            break; /* a failed read, for instance; the log has said which */
        }
        tokens[0] = llama_sampler_sample(greedy, lctx, -1);
        n = 1;
        char text[256];
        const int32_t n_text = llama_token_to_piece(vocab, tokens[0], text, sizeof(text), 0, true);
        if (llama_vocab_is_eog(vocab, tokens[0]) || n_text < 0) {
            break;
        }
        fwrite(text, 1, (size_t) n_text, stdout);
    }
    fputc('\n', stdout);
    llama_sampler_free(greedy);
    return failed;
}

/* Where memory went, and what had to be read. */
static int report(const struct llama_model * model) {
    struct lesext_plan  plan  = { .size = sizeof(plan) };
    struct lesext_stats stats = { .size = sizeof(stats) };
    if (lesext_plan(model, &plan) != 0 || lesext_stats(model, &stats) != 0) {
        fprintf(stderr, "embed: %s\n", lesext_last_error());
        return 1;
    }
    fprintf(stderr, "slots %d of %d experts, %lld bytes planned; %lld of %lld lookups hit, %lld bytes read\n",
        plan.slots, plan.experts, (long long) plan.total_bytes, (long long) stats.hits, (long long) stats.lookups,
        (long long) (stats.demand_bytes + stats.prefetch_bytes + stats.warm_bytes));
    return 0;
}

int main(int argc, char ** argv) {
    struct lesext_options options = lesext_default_options();
    if (argc != 4) {
        fputs("usage: embed MODEL BUDGET PROMPT, the budget like 4G, 512M or a number of bytes\n", stderr);
        return 2;
    }
    if (lesext_parse_size(argv[2], &options.budget_bytes) != 0) {
        fprintf(stderr, "embed: %s\n", lesext_last_error());
        return 2;
    }
    llama_log_set(log_errors, NULL);
    llama_backend_init();

    if (lesext_enable(&options) != 0) {
        fprintf(stderr, "embed: %s\n", lesext_last_error());
        return 1;
    }

    struct llama_model * model = llama_model_load_from_file(argv[1], llama_model_default_params());
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = N_CONTEXT;
    params.n_outputs_max = 1; // logits of the last token only: else memory is planned for those of a whole batch
    struct llama_context * lctx = model ? llama_init_from_model(model, params) : NULL;
    if (!lctx) {
        fprintf(stderr, "embed: %s\n", lesext_last_error());
        llama_model_free(model);
        return 1;
    }
    const int failed = generate(lctx, argv[3]) || report(model);
    llama_free(lctx);
    llama_model_free(model);
    llama_backend_free();
    return failed;
}
