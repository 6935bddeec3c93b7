#include "lesext.h"

#include "les-host.h"

#include <stdio.h>
#include <string.h>

static const char lesext_other_version[] = "the structure is of another version of lesext.h";

struct lesext_options lesext_default_options(void) {
    const struct lesext_options options = {
        .size = sizeof(options), .slots = LESEXT_SLOTS_FROM_BUDGET, .lookahead = 1,
    };
    return options;
}

static int lesext_fail(const char * what, const char * reason) {
    char text[1400];
    snprintf(text, sizeof(text), "%s: %s", what, reason);
    les_host_fail(text);
    return -1;
}

int lesext_parse_size(const char * text, uint64_t * bytes) {
    struct les_options o = les_options_default();
    const char * reason = text && bytes ? les_options_set(&o, "budget", text) : "there is no text, or no place for the number";
    if (reason) {
        return lesext_fail("size", reason);
    }
    *bytes = (uint64_t) o.budget;
    return 0;
}

// Sets one option of a load to a number.
static const char * lesext_set_number(struct les_options * o, const char * name, long long value) {
    char text[32];
    snprintf(text, sizeof(text), "%lld", value);
    return les_options_set(o, name, text);
}

// The options by the names and rules of the environment. On failure the name of the refused one is in *name.
static const char * lesext_convert(const struct lesext_options * in, struct les_options * o, const char ** name) {
    *name = "size";
    if (in->size != sizeof(*in)) {
        return lesext_other_version;
    }
    const char * reason = les_options_set(o, *name = "mode", in->automatic ? "auto" : "on");
    if (!reason && in->budget_bytes > 0) {
        *name  = "budget";
        reason = in->budget_bytes > INT64_MAX ? "is out of range" : lesext_set_number(o, "budget", (long long) in->budget_bytes);
    }
    if (!reason && in->slots != LESEXT_SLOTS_FROM_BUDGET) {
        *name  = "slots";
        reason = in->slots == LESEXT_SLOTS_ALL ? les_options_set(o, "slots", "all") : lesext_set_number(o, "slots", in->slots);
    }
    if (!reason && in->lookahead != 1) {
        reason = lesext_set_number(o, *name = "lookahead", in->lookahead);
    }
    if (!reason && in->lanes != 0) {
        reason = lesext_set_number(o, *name = "lanes", in->lanes);
    }
    if (!reason && in->warm_file) {
        reason = les_options_set(o, *name = "warm", in->warm_file);
    }
    if (!reason && in->automatic && o->given != LES_GIVEN_MODE) {
        *name  = "automatic";
        reason = "contradicts the other options, which say how to stream and not whether";
    }
    return reason;
}

#ifdef LESEXT_STATIC
int les_engine_register(void); // the engine is in the same archive

static const char * lesext_find_engine(void) {
    return les_engine_register() == 0 ? NULL : "the process has another engine, or libllama is of another version";
}
#else
static const char * lesext_find_engine(void) {
    return NULL; // libllama opens it when a load wants it
}
#endif

int lesext_enable(const struct lesext_options * options) {
    const struct lesext_options none = lesext_default_options();
    struct les_options converted = les_options_default();
    const char * name;
    const char * reason = lesext_convert(options ? options : &none, &converted, &name);
    if (!reason) {
        reason = lesext_find_engine();
        name   = "engine";
    }
    if (reason) {
        return lesext_fail(name, reason);
    }
    les_option_replace(&converted);
    return 0;
}

void lesext_disable(void) {
    les_option_reset();
    les_option_set("mode", "off");
}

// Refuses a structure that is not there, or whose size is not what it is here.
static int lesext_check_size(const size_t * size, size_t want) {
    if (!size) {
        return lesext_fail("NULL", "there is no structure to fill in");
    }
    return *size == want ? 0 : lesext_fail("size", lesext_other_version);
}

int lesext_plan(const struct llama_model * model, struct lesext_plan * plan) {
    struct les_plan p;
    if (lesext_check_size(plan ? &plan->size : NULL, sizeof(*plan)) != 0) {
        return -1;
    }
    if (les_host_plan(model, &p) != 0) {
        return -1;
    }
    *plan = (struct lesext_plan) {
        .size = plan->size, .dense_bytes = p.dense, .kv_bytes = p.kv, .compute_bytes = p.compute, .process_bytes = p.process,
        .slots_bytes = p.slots, .total_bytes = p.total, .budget_bytes = p.budget, .floor_bytes = p.floor,
        .slot_bytes = p.expert_bytes, .slots = p.slot_count, .floor_slots = p.floor_slots, .experts = p.experts, .layers = p.layers,
    };
    return 0;
}

int lesext_stats(const struct llama_model * model, struct lesext_stats * stats) {
    struct les_stats s;
    if (lesext_check_size(stats ? &stats->size : NULL, sizeof(*stats)) != 0) {
        return -1;
    }
    if (les_host_stats(model, &s) != 0) {
        return -1;
    }
    *stats = (struct lesext_stats) {
        .size = stats->size, .lookups = s.lookups, .hits = s.hits, .joins = s.joins, .misses = s.misses, .guessed = s.guessed,
        .right = s.right, .routed_guessed = s.routed_guessed, .demand_bytes = s.demand_bytes, .prefetch_bytes = s.prefetch_bytes,
        .warm_bytes = s.warm_bytes, .retried_reads = s.retried_reads, .failed_reads = s.failed_reads, .stall_ns = s.stall_ns,
    };
    return 0;
}

int lesext_set_budget(const struct llama_model * model, uint64_t bytes) {
    if (bytes == 0 || bytes > INT64_MAX) {
        return lesext_fail("budget", bytes == 0 ? "must be more than zero" : "is out of range");
    }
    return les_host_set_budget(model, (int64_t) bytes) == 0 ? 0 : -1;
}

int lesext_memory_pressure(const struct llama_model * model, enum lesext_pressure level) {
    return les_host_pressure(model, (int32_t) level) == 0 ? 0 : -1;
}

const char * lesext_last_error(void) {
    return les_host_last_error();
}

void lesext_clear_error(void) {
    les_host_fail("");
}

const char * lesext_version(void) {
    return LESEXT_VERSION;
}
