#include "bridge.h"
#include "_cgo_export.h"

static uintptr_t bridge_load_begin(const struct les_options * options) {
    return lesHostLoadBegin((struct les_options *) options);
}

static int32_t bridge_load_end(uintptr_t model, const char * const * paths, size_t n_paths, int64_t weights) {
    return lesHostLoadEnd(model, (char **) paths, n_paths, weights);
}

static int32_t bridge_context_made(uintptr_t model, struct llama_context * lctx) {
    return lesHostContextMade(model, lctx);
}

static uintptr_t bridge_context_leaves(const struct llama_context * lctx) {
    return lesHostContextLeaves((uintptr_t) lctx);
}

static void bridge_other_loaded(const struct llama_model * model, const char * path, int64_t weights) {
    lesHostOtherLoaded((uintptr_t) model, (char *) path, weights);
}

static void bridge_other_context(const struct llama_model * model, struct llama_context * lctx) {
    lesHostOtherContext((uintptr_t) model, lctx);
}

static void bridge_other_free(const struct llama_model * model) {
    lesHostOtherFree((uintptr_t) model);
}

int32_t les_host_bridge_register(void) {
    static const struct les_host host = {
        .abi           = LES_HOST_ABI,
        .load_begin    = bridge_load_begin,
        .load_end      = bridge_load_end,
        .context_begin = lesHostContextBegin,
        .context_made  = bridge_context_made,
        .context_leaves = bridge_context_leaves,
        .context_left  = lesHostContextLeft,
        .model_free    = lesHostModelFree,
        .plan          = lesHostPlan,
        .stats         = lesHostStats,
        .set_budget    = lesHostSetBudget,
        .set_slots     = lesHostSetSlots,
        .pressure      = lesHostPressure,
        .other_loaded  = bridge_other_loaded,
        .other_context = bridge_other_context,
        .other_free    = bridge_other_free,
    };
    return les_host_register(&host);
}
