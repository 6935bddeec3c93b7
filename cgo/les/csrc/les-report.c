#include "les-report.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

struct les_flag les_report_flag(int32_t i) {
    static const struct les_flag flags[LES_N_FLAGS] = {
        { "mode",      "--les",           "{on,off,auto}",  "stream the experts of a model from its file; auto does where the model does not fit into memory\n(default: auto, env: LES)" },
        { "budget",    "--les-budget",    "SIZE",           "memory for the whole process when experts are streamed, like 4G\n(default: nine tenths of the memory there is, env: LES_BUDGET)" },
        { "slots",     "--les-slots",     "{N,floor,all}",  "expert slots a layer above the least that works, instead of a budget\n(env: LES_SLOTS)" },
        { "lookahead", "--les-lookahead", "{0,1}",          "layers ahead whose experts are read early (default: 1, env: LES_LOOKAHEAD)" },
        { "lanes",     "--les-lanes",     "N",              "reads of experts in flight (default: 4, env: LES_LANES)" },
        { "warm",      "--les-warm",      "FNAME",          "file with the experts that were hot before, which are read ahead; written anew at the end\n(env: LES_WARM)" },
    };
    return flags[i];
}

// Text of which only the beginning may have room.
struct les_text {
    char * text;
    size_t size;
    size_t n;
};

static void les_text_add(struct les_text * t, const char * format, ...) {
    const size_t room = t->n < t->size ? t->size - t->n : 0;
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(room ? t->text + t->n : NULL, room, format, args);
    va_end(args);
    t->n += n > 0 ? (size_t) n : 0;
}

static double les_ratio(int64_t part, int64_t whole) {
    return whole > 0 ? (double) part/(double) whole : 0;
}

// 1 while experts are read ahead.
static int les_looks_ahead(const struct les_plan * plan, const struct les_stats * stats) {
    return plan->lookahead > 0 && stats->cut_percent <= 100;
}

// metrics

struct les_metric {
    const char * name;
    const char * type;
    const char * help;
    double       value;
};

#define LES_N_METRICS 22

// The metric with this number, of one model.
static struct les_metric les_metric_of(const struct les_told * told, size_t i) {
    const struct les_plan  * p = &told->plan;
    const struct les_stats * s = &told->stats;
    const struct les_metric metrics[] = {
        { "lookups_total",          "counter", "Routed experts, of each layer and step",                             (double) s->lookups },
        { "hits_total",             "counter", "Routed experts that were in memory",                                 (double) s->hits },
        { "joins_total",            "counter", "Routed experts that were being read already",                        (double) s->joins },
        { "misses_total",           "counter", "Routed experts whose read had to begin",                             (double) s->misses },
        { "guesses_total",          "counter", "Experts that the lookahead guessed",                                 (double) s->guessed },
        { "guesses_right_total",    "counter", "Guessed experts that were routed",                                   (double) s->right },
        { "demand_bytes_total",     "counter", "Bytes read because a layer needed them",                             (double) s->demand_bytes },
        { "prefetch_bytes_total",   "counter", "Bytes read on a guess",                                              (double) s->prefetch_bytes },
        { "warm_bytes_total",       "counter", "Bytes read ahead in the background",                                 (double) s->warm_bytes },
        { "retried_reads_total",    "counter", "Reads that failed and were repeated",                                (double) s->retried_reads },
        { "failed_reads_total",     "counter", "Reads that failed for good, each with its request",                  (double) s->failed_reads },
        { "stall_seconds_total",    "counter", "Time spent waiting for bytes of experts, mean over compute threads", (double) s->stall_ns/1e9 },
        { "hit_rate",               "gauge",   "Hits / lookups since the model was loaded",                          les_ratio(s->hits, s->lookups) },
        { "recall",                 "gauge",   "Routed experts that had been guessed / routed experts of layers with guesses", les_ratio(s->right, s->routed_guessed) },
        { "slots",                  "gauge",   "Expert slots",                                                       p->slot_count },
        { "experts",                "gauge",   "Experts of all streamed layers",                                     p->experts },
        { "slots_bytes",            "gauge",   "Memory of the expert slots",                                         (double) p->slots },
        { "budget_bytes",           "gauge",   "Budget of the process, 0 when slots were asked for",                 (double) p->budget },
        { "plan_bytes",             "gauge",   "Memory planned for, peak of the process",                            (double) p->total },
        { "floor_bytes",            "gauge",   "Least budget",                                                       (double) p->floor },
        { "lookahead",              "gauge",   "1 while experts are read ahead",                                     les_looks_ahead(p, s) },
        { "lookahead_cut_ratio",    "gauge",   "How often guesses must come true to be read ahead; above 1 none are", s->cut_percent/100.0 },
    };
    static_assert(sizeof(metrics)/sizeof(metrics[0]) == LES_N_METRICS, "LES_N_METRICS");
    return metrics[i];
}

// Several models at once are told apart by a label, which stays: names of series must not change while the process lives.
static _Atomic bool les_labels;

static void les_add_metrics(struct les_text * t, const struct les_told * told, size_t n) {
    if (n > 1) {
        atomic_store_explicit(&les_labels, true, memory_order_relaxed);
    }
    const bool labels = atomic_load_explicit(&les_labels, memory_order_relaxed);
    for (size_t i = 0; i < LES_N_METRICS && n > 0; i++) {
        const struct les_metric first = les_metric_of(told, i);
        les_text_add(t, "# HELP llamacpp:les_%s %s\n# TYPE llamacpp:les_%s %s\n", first.name, first.help, first.name, first.type);
        for (size_t k = 0; k < n; k++) {
            les_text_add(t, "llamacpp:les_%s", first.name);
            if (labels) {
                les_text_add(t, "{model=\"%s\"}", told[k].name);
            }
            les_text_add(t, " %.17g\n", les_metric_of(&told[k], i).value);
        }
    }
}

size_t les_report_metrics(char * text, size_t size) {
    struct les_text t = { text, size, 0 };
    struct les_told told[LES_N_TOLD];
    les_text_add(&t, "%s", ""); // ends a text of nothing too
    les_add_metrics(&t, told, les_host_told(told, LES_N_TOLD));
    return t.n;
}

// plan

static void les_add_plan(struct les_text * t, const struct les_told * told) {
    const struct les_plan  * p = &told->plan;
    const struct les_stats * s = &told->stats;
    const int32_t above = p->slot_count > p->floor_slots ? p->slot_count - p->floor_slots : 0;
    les_text_add(t, "\"model\": \"%s\", \"streamed_layers\": %d, \"experts\": %d, \"slots\": %d, \"floor_slots\": %d, \"slots_per_layer\": %.17g, ",
        told->name, p->layers, p->experts, p->slot_count, p->floor_slots, les_ratio(above, p->layers));
    les_text_add(t, "\"budget_bytes\": %lld, \"plan_bytes\": %lld, \"floor_bytes\": %lld, \"dense_bytes\": %lld, \"kv_bytes\": %lld, ",
        (long long) p->budget, (long long) p->total, (long long) p->floor, (long long) p->dense, (long long) p->kv);
    les_text_add(t, "\"compute_bytes\": %lld, \"process_bytes\": %lld, \"slots_bytes\": %lld, \"lanes\": %d, ",
        (long long) p->compute, (long long) p->process, (long long) p->slots, p->lanes);
    les_text_add(t, "\"lookahead\": %s, \"hit_rate\": %.17g, \"recall\": %.17g",
        les_looks_ahead(p, s) ? "true" : "false", les_ratio(s->hits, s->lookups), les_ratio(s->right, s->routed_guessed));
}

size_t les_report_plan(char * text, size_t size) {
    struct les_text t = { text, size, 0 };
    struct les_told told[LES_N_TOLD];
    const size_t n = les_host_told(told, LES_N_TOLD);
    if (n == 0 || !told[0].model) {
        les_text_add(&t, "{\"les\": \"off\"}");
        return t.n;
    }
    les_text_add(&t, "{\"les\": \"on\", ");
    les_add_plan(&t, &told[0]);
    for (size_t i = 1; i < n; i++) {
        les_text_add(&t, i == 1 ? ", \"others\": [{" : ", {");
        les_add_plan(&t, &told[i]);
        les_text_add(&t, i + 1 < n ? "}" : "}]");
    }
    les_text_add(&t, "}");
    return t.n;
}
