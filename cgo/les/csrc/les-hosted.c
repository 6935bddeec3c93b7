#include "les-hosted.h"
#include "les-impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct les_hosted {
    struct les_told     told; // without a model once that is freed
    uintptr_t           id;
    int64_t             mark; // lookups when another model ended, 0 if none did
    struct les_hosted * next; // loaded later
};

// The lock guards all of it.
static struct {
    _Atomic int32_t     lock;
    int64_t             loads;
    struct les_hosted * first;
} les_m;

static struct les_hosted * les_find(const struct llama_model * model) {
    struct les_hosted * h = les_m.first;
    while (h && h->told.model != model) {
        h = h->next;
    }
    return h;
}

static void les_unlink(struct les_hosted * h) {
    struct les_hosted ** at = &les_m.first;
    while (*at != h) {
        at = &(*at)->next;
    }
    *at = h->next;
    free(h);
}

static bool les_is_taken(const char * name) {
    for (const struct les_hosted * h = les_m.first; h; h = h->next) {
        if (strcmp(h->told.name, name) == 0) {
            return true;
        }
    }
    return false;
}

// A file's name as it can stand in every format, with a number behind it when a model of that name is there.
static void les_name(char * name, size_t size, const char * path) {
    char file[100];
    const char * start = path;
    for (const char * c = path; *c; c++) {
        start = *c == '/' || *c == '\\' ? c + 1 : start;
    }
    snprintf(file, sizeof(file), "%s", start);
    for (char * c = file; *c; c++) {
        *c = *c < ' ' || *c > '~' || *c == '"' ? '_' : *c;
    }
    snprintf(name, size, "%s", file);
    for (int32_t i = 2; les_is_taken(name); i++) {
        snprintf(name, size, "%s#%d", file, i);
    }
}

static void les_forget_past(void) {
    for (struct les_hosted * past; (past = les_find(NULL));) {
        les_unlink(past);
    }
}

bool les_hosted_add(const struct llama_model * model, uintptr_t id, const char * path) {
    struct les_hosted * added = calloc(1, sizeof(*added));
    if (!added) {
        return false;
    }
    les_lock(&les_m.lock);
    les_forget_past();
    added->id         = id;
    added->told.model = model;
    added->told.load  = ++les_m.loads;
    les_name(added->told.name, sizeof(added->told.name), path);
    struct les_hosted ** at = &les_m.first;
    while (*at) {
        at = &(*at)->next;
    }
    *at = added;
    les_unlock(&les_m.lock);
    return true;
}

uintptr_t les_hosted_id(const struct llama_model * model) {
    les_lock(&les_m.lock);
    const struct les_hosted * h = model ? les_find(model) : NULL;
    const uintptr_t id = h ? h->id : 0;
    les_unlock(&les_m.lock);
    return id;
}

void les_hosted_end(const struct llama_model * model, const struct les_told * told) {
    les_lock(&les_m.lock);
    struct les_hosted * h = les_find(model);
    if (h && told && told->stats.lookups != h->mark) {
        les_forget_past();
    }
    if (h && told) {
        h->told.model = NULL;
        h->told.plan  = told->plan;
        h->told.stats = told->stats;
    } else if (h) {
        les_unlink(h);
    }
    les_unlock(&les_m.lock);
}

void les_hosted_mark(const struct llama_model * model, int64_t lookups) {
    les_lock(&les_m.lock);
    struct les_hosted * h = les_find(model);
    if (h) {
        h->mark = lookups;
    }
    les_unlock(&les_m.lock);
}

bool les_hosted_next(struct les_told * told) {
    les_lock(&les_m.lock);
    bool any = false; // is streamed now
    for (const struct les_hosted * h = les_m.first; h; h = h->next) {
        any = any || h->told.model;
    }
    const struct les_hosted * h = les_m.first;
    while (h && (h->told.load <= told->load || (any && !h->told.model))) {
        h = h->next;
    }
    if (h) {
        *told = h->told;
    }
    les_unlock(&les_m.lock);
    return h != NULL;
}
