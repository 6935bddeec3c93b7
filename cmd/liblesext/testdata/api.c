// Every function of lesext.h, with what it refuses. Prints "ok" when all of it is as documented.
//
//   api MODEL

#include "lesext.h"
#include "llama.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            printf("%d: %s; last error: %s\n", __LINE__, #cond, lesext_last_error()); \
            exit(1); \
        } \
    } while (0)

static int said(const char * part) {
    return strstr(lesext_last_error(), part) != NULL;
}

static void refused_options(void) {
    struct lesext_options o = lesext_default_options();
    o.size = 8;
    CHECK(lesext_enable(&o) == -1 && said("size"));
    o = lesext_default_options(); o.budget_bytes = UINT64_MAX;
    CHECK(lesext_enable(&o) == -1 && said("budget"));
    o = lesext_default_options(); o.slots = -5;
    CHECK(lesext_enable(&o) == -1 && said("slots"));
    o = lesext_default_options(); o.slots = 1; o.budget_bytes = 1 << 30;
    CHECK(lesext_enable(&o) == -1 && said("contradict"));
    o = lesext_default_options(); o.lookahead = -1;
    CHECK(lesext_enable(&o) == -1 && said("lookahead"));
    o = lesext_default_options(); o.lookahead = 2;
    CHECK(lesext_enable(&o) == -1 && said("lookahead: 2 is more than 1"));
    o = lesext_default_options(); o.lanes = 1000;
    CHECK(lesext_enable(&o) == -1 && said("lanes"));
    o = lesext_default_options(); o.warm_file = "";
    CHECK(lesext_enable(&o) == -1 && said("warm"));
    o = lesext_default_options(); o.automatic = 1; o.lanes = 2;
    CHECK(lesext_enable(&o) == -1 && said("automatic"));
}

static void sizes(void) {
    uint64_t bytes = 7;
    CHECK(lesext_parse_size("3G", &bytes) == 0 && bytes == (uint64_t) 3 << 30);
    CHECK(lesext_parse_size("1.5MiB", &bytes) == 0 && bytes == 3 << 19);
    CHECK(lesext_parse_size("1048576", &bytes) == 0 && bytes == 1 << 20);
    CHECK(lesext_parse_size("3X", &bytes) == -1 && said("3X") && lesext_parse_size("0", &bytes) == -1 && lesext_parse_size("", &bytes) == -1);
    CHECK(bytes == 1 << 20 && lesext_parse_size(NULL, &bytes) == -1 && lesext_parse_size("3G", NULL) == -1);
}

static struct llama_context * make_context(struct llama_model * model) {
    struct llama_context_params params = llama_context_default_params();
    params.n_ctx = 64;
    return llama_init_from_model(model, params);
}

static void resident(const char * path) {
    struct lesext_plan plan = { .size = sizeof(plan) };
    lesext_disable();
    struct llama_model * model = llama_model_load_from_file(path, llama_model_default_params());
    CHECK(model && lesext_plan(model, &plan) == -1 && said("not streamed"));
    CHECK(lesext_set_budget(model, 1 << 30) == -1 && lesext_memory_pressure(model, LESEXT_PRESSURE_CRITICAL) == -1);
    llama_model_free(model);
}

static void streamed(const char * path) {
    struct lesext_plan  plan  = { .size = sizeof(plan) };
    struct lesext_stats stats = { .size = sizeof(stats) };
    struct lesext_options o = lesext_default_options();
    o.slots = LESEXT_SLOTS_ALL;
    CHECK(lesext_enable(&o) == 0);
    struct llama_model * model = llama_model_load_from_file(path, llama_model_default_params());
    CHECK(model && lesext_plan(model, &plan) == -1 && said("no context"));
    for (int i = 0; i < 3; i++) { // contexts come and go
        struct llama_context * lctx = make_context(model);
        CHECK(lctx);
        llama_token tokens[] = { 1, 2, 3 };
        CHECK(llama_decode(lctx, llama_batch_get_one(tokens, 3)) == 0);
        llama_free(lctx);
    }
    CHECK(lesext_plan(model, &plan) == 0 && plan.slots == plan.experts && plan.layers > 0);
    CHECK(plan.total_bytes == plan.dense_bytes + plan.kv_bytes + plan.compute_bytes + plan.process_bytes + plan.slots_bytes);
    CHECK(lesext_stats(model, &stats) == 0 && stats.lookups > 0 && stats.lookups == stats.hits + stats.joins + stats.misses);
    CHECK(lesext_plan(model, NULL) == -1 && said("no structure") && lesext_stats(model, NULL) == -1);
    plan.size = stats.size = 4;
    CHECK(lesext_plan(model, &plan) == -1 && lesext_stats(model, &stats) == -1 && said("size"));
    plan.size = sizeof(plan);
    CHECK(lesext_set_budget(model, 0) == -1 && lesext_set_budget(model, UINT64_MAX) == -1);
    CHECK(lesext_set_budget(model, 1 << 20) == -1 && said("below the floor"));
    CHECK(lesext_set_budget(model, (uint64_t) plan.total_bytes - 20*(uint64_t) plan.slot_bytes) == 0);
    const int32_t slots = plan.slots;
    CHECK(lesext_plan(model, &plan) == 0 && plan.slots < slots && plan.budget_bytes > 0);
    CHECK(lesext_memory_pressure(model, (enum lesext_pressure) 9) == -1 && said("no level"));
    CHECK(lesext_memory_pressure(model, LESEXT_PRESSURE_CRITICAL) == 0 && lesext_plan(model, &plan) == 0 && plan.slots == plan.floor_slots);
    CHECK(lesext_memory_pressure(model, LESEXT_PRESSURE_NONE) == 0 && lesext_plan(model, &plan) == 0 && plan.slots > plan.floor_slots);
    llama_model_free(model);
}

static void quiet(enum ggml_log_level level, const char * text, void * user) {
    (void) level; (void) text; (void) user;
}

static const struct llama_model * watched;

// A log that shows the counters beside each line of LES.
static void curious(enum ggml_log_level level, const char * text, void * user) {
    struct lesext_plan  plan  = { .size = sizeof(plan) };
    struct lesext_stats stats = { .size = sizeof(stats) };
    (void) level;
    if (watched && strstr(text, "LES: ") && lesext_plan(watched, &plan) == 0 && lesext_stats(watched, &stats) == 0) {
        ++*(int *) user;
    }
}

static void asked_while_logging(const char * path) {
    int n_lines = 0;
    struct lesext_options o = lesext_default_options();
    o.slots = 2;
    CHECK(lesext_enable(&o) == 0);
    struct llama_model * model = llama_model_load_from_file(path, llama_model_default_params());
    CHECK(model);
    watched = model;
    llama_log_set(curious, &n_lines);
    struct llama_context * lctx = make_context(model);
    CHECK(lctx && n_lines == 1);
    CHECK(lesext_set_budget(model, (uint64_t) 1 << 32) == 0 && n_lines == 2);
    CHECK(lesext_memory_pressure(model, LESEXT_PRESSURE_CRITICAL) == 0 && n_lines == 3);
    llama_free(lctx);
    llama_log_set(quiet, NULL);
    llama_model_free(model);
}

// The plan of the first model counts the second one, which is told of while the second one is being changed.
static void asked_while_another_is_counted(const char * path) {
    int n_lines = 0;
    struct lesext_options o = lesext_default_options();
    o.slots = 2;
    CHECK(lesext_enable(&o) == 0);
    struct llama_model * first = llama_model_load_from_file(path, llama_model_default_params());
    struct llama_context * lctx = make_context(first);
    struct llama_model * second = llama_model_load_from_file(path, llama_model_default_params());
    CHECK(lctx && second);
    watched = second;
    llama_log_set(curious, &n_lines);
    struct llama_context * other = make_context(second);
    CHECK(other && n_lines == 2);
    CHECK(lesext_set_budget(second, (uint64_t) 1 << 32) == 0 && n_lines == 4);
    llama_log_set(quiet, NULL);
    llama_free(lctx);
    llama_model_free(first);
    llama_log_set(curious, &n_lines);
    CHECK(lesext_set_budget(second, (uint64_t) 1 << 31) == 0 && n_lines == 5); // nobody counts it now
    llama_free(other);
    llama_log_set(quiet, NULL);
    llama_model_free(second);
}

static void too_small(const char * path) {
    struct lesext_options o = lesext_default_options();
    o.budget_bytes = 1 << 20;
    CHECK(lesext_enable(&o) == 0);
    struct llama_model * model = llama_model_load_from_file(path, llama_model_default_params());
    CHECK(model && !make_context(model) && said("below the floor"));
    CHECK(!make_context(model)); // and again
    llama_model_free(model);
}

int main(int argc, char ** argv) {
    if (argc != 2) {
        return 2;
    }
    llama_log_set(quiet, NULL);
    llama_backend_init();
    CHECK(lesext_version()[0] && lesext_last_error()[0] == 0);
    refused_options();
    sizes();
    resident(argv[1]);
    streamed(argv[1]);
    asked_while_logging(argv[1]);
    asked_while_another_is_counted(argv[1]);
    too_small(argv[1]);
    resident(argv[1]);
    puts("ok");
    return 0;
}
