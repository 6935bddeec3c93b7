// The plan and counters of a streamed model from C++, whose memory shrinks and grows while it runs.
//
//   cmake -S . -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build
//   build/embed model.gguf 4G

#include <lesext.h>
#include <llama-cpp.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

static struct lesext_plan plan_of(const llama_model * model) {
    struct lesext_plan plan = {};
    plan.size = sizeof(plan);
    if (lesext_plan(model, &plan) != 0) {
        throw std::runtime_error(lesext_last_error());
    }
    return plan;
}

// Decodes some tokens and returns the first logit.
static float decode(llama_context * lctx) {
    std::vector<llama_token> tokens = { 1, 2, 3, 4 };
    llama_memory_clear(llama_get_memory(lctx), true);
    if (llama_decode(lctx, llama_batch_get_one(tokens.data(), (int32_t) tokens.size())) != 0) {
        throw std::runtime_error(lesext_last_error());
    }
    return llama_get_logits_ith(lctx, -1)[0];
}

static void run(const char * path, uint64_t budget) {
    struct lesext_options options = lesext_default_options();
    options.budget_bytes = budget;
    if (lesext_enable(&options) != 0) {
        throw std::runtime_error(lesext_last_error());
    }
    llama_model_ptr model(llama_model_load_from_file(path, llama_model_default_params()));
    if (!model) {
        throw std::runtime_error(lesext_last_error());
    }
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    params.n_outputs_max = 1; // logits of the last token only: else memory is planned for those of a whole batch
    llama_context_ptr lctx(llama_init_from_model(model.get(), params));
    if (!lctx) {
        throw std::runtime_error(lesext_last_error());
    }
    const float before = decode(lctx.get());
    const int32_t slots = plan_of(model.get()).slots;
    if (lesext_memory_pressure(model.get(), LESEXT_PRESSURE_CRITICAL) != 0) {
        throw std::runtime_error(lesext_last_error());
    }
    const int32_t fewer = plan_of(model.get()).slots;
    const float same = decode(lctx.get());
    if (lesext_memory_pressure(model.get(), LESEXT_PRESSURE_NONE) != 0) {
        throw std::runtime_error(lesext_last_error());
    }
    std::printf("slots %d, under pressure %d, then %d; results %s\n", slots, fewer, plan_of(model.get()).slots,
        before == same ? "equal" : "DIFFER");
}

int main(int argc, char ** argv) {
    if (argc != 3) {
        std::fputs("usage: embed MODEL BUDGET, the budget like 4G, 512M or a number of bytes\n", stderr);
        return 2;
    }
    uint64_t budget = 0;
    if (lesext_parse_size(argv[2], &budget) != 0) {
        std::fprintf(stderr, "embed: %s\n", lesext_last_error());
        return 2;
    }
    llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
    llama_backend_init();
    try {
        run(argv[1], budget);
    } catch (const std::exception & err) {
        std::fprintf(stderr, "embed: %s\n", err.what());
        return 1;
    }
    llama_backend_free();
    return 0;
}
