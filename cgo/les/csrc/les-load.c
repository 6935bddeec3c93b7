// The loader seam: which tensors a load leaves to LES, where their bytes lie in files and slots.

#include "les-fit.h"
#include "les-impl.h"
#include "les-os.h"

#include "ggml-backend.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(GGML_MAX_OP_PARAMS >= 64, "LES keeps its parameters behind ggml's in op_params");
static_assert(GGML_MAX_SRC >= 7, "the fused node has up to six sources");

// One load at a time takes a model in. The lock guards both pointers.
static struct {
    _Atomic int32_t    lock;
    struct les_model * pending; // offered to the next load that has experts
    struct les_model * loading; // taken by the load that its owner field names
    const void *       thread;  // what either is offered to the loads of; NULL for those of any thread
} les_g;

int32_t les_model_set_pending(struct les_model * model) {
    les_lock(&les_g.lock);
    const bool other = model && (les_g.loading || (les_g.pending && les_g.pending != model));
    if (!other) {
        les_g.pending = model;
        les_g.thread  = les_thread_loading();
    }
    if (!other && model) {
        model->hosted = les_g.thread != NULL;
    }
    les_unlock(&les_g.lock);
    if (other) {
        les_model_set_error(model, "another load of streamed experts is not finished");
        return -1;
    }
    return 0;
}

bool les_model_is_offered(void) {
    les_lock(&les_g.lock);
    const bool offered = (les_g.pending || les_g.loading) && !les_g.thread;
    les_unlock(&les_g.lock);
    return offered;
}

struct les_model * les_model_loading(void) {
    les_lock(&les_g.lock);
    struct les_model * model = les_g.loading;
    les_unlock(&les_g.lock);
    return model;
}

void les_model_forget(struct les_model * model) {
    les_lock(&les_g.lock);
    if (les_g.loading == model) {
        les_g.loading = NULL;
    }
    if (les_g.pending == model) {
        les_g.pending = NULL;
    }
    les_unlock(&les_g.lock);
}

// Returns an array of n elements with room for one more, grown if need be; NULL when memory is out, the array being as it was.
static void * les_grow(void * array, int32_t n, int32_t * cap, size_t size) {
    if (n < *cap) {
        return array;
    }
    const int32_t cap_new = *cap > 0 ? 2 * *cap : 64;
    void * grown = realloc(array, (size_t) cap_new * size);
    if (grown) {
        *cap = cap_new;
    }
    return grown;
}

struct les_weight * les_model_add_weight(struct les_model * model, struct ggml_tensor * t) {
    struct les_weight ** weights = les_grow(model->weights, model->n_weights, &model->cap_weights, sizeof(*weights));
    if (!weights) {
        return NULL;
    }
    model->weights = weights;
    struct les_weight * w = calloc(1, sizeof(*w));
    if (!w) {
        return NULL;
    }
    w->model  = model;
    w->rows   = t->ne[2] == 1;
    w->layer  = -1;
    w->off    = UINT64_MAX;
    w->tensor = t;
    weights[model->n_weights++] = w;
    return w;
}

// loader hooks

// The CPU backend has the kernels, and with them the buffer type; it may be a library loaded at run time.
static struct ggml_backend_buffer_type * les_buft(ggml_backend_dev_t dev) {
    if (!dev) {
        return NULL;
    }
    struct ggml_backend_buffer_type * (*get)(void) = NULL;
    void * found = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(dev), "les_cpu_buffer_type");
    memcpy(&get, &found, sizeof(get)); // ISO C has no cast from an object pointer to a function pointer
    return get ? get() : NULL;
}

// Token embeddings, of which a step needs a row for each token. Where they are the output matrix too, the loader does not ask.
static bool les_has_rows(const struct ggml_tensor * meta) {
    return strcmp(meta->name, "token_embd.weight") == 0 && ggml_is_matrix(meta);
}

static bool les_has_experts(const struct ggml_tensor * meta) {
    return meta->ne[2] >= 2 && meta->ne[3] == 1;
}

struct ggml_backend_buffer_type * les_hook_weight_buft(const void * owner, const struct ggml_tensor * meta, struct ggml_backend_device * dev) {
    if (!les_has_experts(meta) && !les_has_rows(meta)) {
        return NULL;
    }
    les_lock(&les_g.lock);
    const bool mine = !les_g.thread || les_g.thread == les_thread_loading();
    if (les_g.pending && !les_g.loading && mine) { // a load keeps its model until that is sealed
        les_g.loading        = les_g.pending;
        les_g.loading->owner = owner;
        les_g.pending        = NULL;
    }
    const bool ours = les_g.loading && les_g.loading->owner == owner;
    les_unlock(&les_g.lock);
    return ours ? les_buft(dev) : NULL;
}

static struct les_router * les_model_router(struct les_model * model, int32_t block) {
    for (int32_t i = 0; i < model->n_routers; i++) {
        if (model->routers[i].block == block) {
            return &model->routers[i];
        }
    }
    struct les_router * routers = les_grow(model->routers, model->n_routers, &model->cap_routers, sizeof(*routers));
    if (!routers) {
        return NULL;
    }
    model->routers = routers;
    routers[model->n_routers] = (struct les_router) { .block = block };
    return &routers[model->n_routers++];
}

static void les_model_note_router(struct les_model * model, struct ggml_tensor * t) {
    int block = 0;
    int end   = 0;
    if (sscanf(t->name, "blk.%d.%n", &block, &end) != 1 || end == 0) {
        return;
    }
    const char * name = t->name + end;
    const bool weight = strcmp(name, "ffn_gate_inp.weight") == 0;
    const bool bias   = strcmp(name, "ffn_gate_inp.bias")   == 0;
    const bool select = strcmp(name, "exp_probs_b.bias")    == 0;
    if (!weight && !bias && !select) {
        return;
    }
    struct les_router * r = les_model_router(model, block);
    if (r) {
        *(weight ? &r->weight : bias ? &r->bias : &r->select) = t;
    }
}

// Weights that are not streamed are read after this; what the system puts behind their buffer at the first touch decides
// how long reading takes, and how long each product waits for address translations afterwards.
static void les_model_advise(struct les_model * model, const struct ggml_tensor * t) {
    ggml_backend_buffer_t buffer = t->view_src ? t->view_src->buffer : t->buffer;
    if (buffer && buffer != model->advised && ggml_backend_buffer_is_host(buffer)) {
        les_os_advise_huge(ggml_backend_buffer_get_base(buffer), ggml_backend_buffer_get_size(buffer));
        model->advised = buffer;
    }
}

bool les_hook_weight_data(const void * owner, struct ggml_tensor * tensor, int32_t file, uint64_t off, uint64_t stride) {
    if (!les_hook_is_streamed(tensor)) {
        les_memory_note_weight(tensor);
    }
    // Only the load that owns the model may look further into it: any other one runs beside its seal and its end.
    les_lock(&les_g.lock);
    struct les_model * model = les_g.loading && les_g.loading->owner == owner ? les_g.loading : NULL;
    les_unlock(&les_g.lock);
    if (!model) {
        return false;
    }
    if (!les_hook_is_streamed(tensor)) {
        les_model_note_router(model, tensor);
        les_model_advise(model, tensor);
        return false;
    }
    struct les_weight * w = tensor->extra;
    w->file       = file;
    w->off        = off;
    w->stride     = stride > 0 ? stride : tensor->nb[2];
    w->contiguous = stride > 0;
    return true;
}

// geometry

// Order of use inside a layer; what has no known role comes first.
enum { LES_ROLE_OTHER, LES_ROLE_GATE, LES_ROLE_UP, LES_ROLE_DOWN };

static int les_role_rank(const char * role) {
    return strncmp(role, "gate", 4) == 0 ? LES_ROLE_GATE :
           strncmp(role, "up",   2) == 0 ? LES_ROLE_UP   :
           strncmp(role, "down", 4) == 0 ? LES_ROLE_DOWN : LES_ROLE_OTHER;
}

// Splits "blk.7.ffn_gate_up_exps.weight" into block 7, role "gate_up", kind "exps". A name of another form is
// a layer of its own.
static int les_parse_name(const char * name, int32_t * block, char kind[GGML_MAX_NAME]) {
    char stem[GGML_MAX_NAME];
    int  b   = 0;
    int  end = 0;
    if (sscanf(name, "blk.%d.ffn_%n", &b, &end) != 1 || end == 0) {
        *block = -1;
        snprintf(kind, GGML_MAX_NAME, "%s", name);
        return 0;
    }
    snprintf(stem, sizeof(stem), "%s", name + end);
    char * dot = strchr(stem, '.');
    if (dot) {
        *dot = 0;
    }
    char * last = strrchr(stem, '_');
    snprintf(kind, GGML_MAX_NAME, "%s", last ? last + 1 : stem);
    *block = b;
    return les_role_rank(stem);
}

static int les_weight_compare(const void * a, const void * b) {
    const struct les_weight * wa = *(struct les_weight * const *) a;
    const struct les_weight * wb = *(struct les_weight * const *) b;
    int32_t block_a, block_b;
    char    kind_a[GGML_MAX_NAME], kind_b[GGML_MAX_NAME];
    const int rank_a = les_parse_name(wa->tensor->name, &block_a, kind_a);
    const int rank_b = les_parse_name(wb->tensor->name, &block_b, kind_b);
    if (block_a != block_b) {
        return block_a < block_b ? -1 : 1;
    }
    const int kinds = strcmp(kind_a, kind_b);
    return kinds != 0 ? kinds : rank_a - rank_b;
}

// True if a projection belongs to the span before it. In the contiguous layout that is so for all but down, which is used
// after the others and has a ready bit of its own; the spans are made to touch, so that one read brings both.
static bool les_span_takes(struct les_span * last, const struct les_weight * w) {
    const uint64_t end = last->off + last->n_bytes;
    if (last->file != w->file || last->stride != w->stride || w->off < end) {
        return false;
    }
    if (!w->contiguous) {
        return w->off == end;
    }
    if (w->off - end >= LES_MATRIX_ALIGN) {
        return false;
    }
    last->n_bytes = w->off - last->off;
    int32_t block;
    char    kind[GGML_MAX_NAME];
    return les_parse_name(w->tensor->name, &block, kind) != LES_ROLE_DOWN;
}

// Adds a projection to its layer: to the last span when it follows in the file, else as a span of its own.
static int32_t les_layer_add(struct les_model * model, struct les_layer * layer, struct les_weight * w) {
    struct les_layer_info * info = &layer->info;
    const uint64_t n_bytes = w->tensor->nb[2];
    if (w->tensor->ne[2] != info->n_expert) {
        les_model_errorf(model, "tensor %s has %d experts, its layer has %d", w->tensor->name, (int) w->tensor->ne[2], info->n_expert);
        return -1;
    }
    struct les_span * last = info->n_spans > 0 ? &info->spans[info->n_spans - 1] : NULL;
    if (last && les_span_takes(last, w)) {
        w->rel = last->n_bytes;
        last->n_bytes += n_bytes;
    } else {
        if (info->n_spans == LES_MAX_SPANS) {
            les_model_errorf(model, "tensor %s: more than %d expert tensors in one layer", w->tensor->name, LES_MAX_SPANS);
            return -1;
        }
        last  = &info->spans[info->n_spans++];
        *last = (struct les_span) { .file = w->file, .off = w->off, .stride = w->stride, .n_bytes = n_bytes };
    }
    w->layer = (int32_t) (layer - model->layers);
    w->span  = info->n_spans - 1;
    return 0;
}

// True if the second span goes on where the first one ends, by the same number of blocks for every expert.
static bool les_spans_touch(const struct les_span * a, const struct les_span * b) {
    return a->file == b->file && a->stride == b->stride && a->stride % LES_ALIGN == 0 && a->off + a->n_bytes == b->off;
}

static void les_layer_place(struct les_model * model, struct les_layer * layer) {
    uint64_t at = 0;
    for (int32_t i = 0; i < layer->info.n_spans; i++) {
        struct les_span * s = &layer->info.spans[i];
        const struct les_span * last = i > 0 ? s - 1 : NULL;
        if (last && les_spans_touch(last, s)) { // in the slot as in the file; the block they meet in is shared
            at = (last->slot_off + last->off % LES_ALIGN + last->n_bytes) / LES_ALIGN * LES_ALIGN;
        }
        s->slot_off = at;
        at += les_span_slot_bytes(s->off, s->stride, s->n_bytes);
    }
    if (at > model->slot_bytes) {
        model->slot_bytes = at;
    }
}

// Finds each layer's router and the layer that follows it.
static void les_model_link(struct les_model * model) {
    size_t n_words = 0;
    for (int32_t i = 0; i < model->n_routers; i++) {
        les_router_copy(&model->routers[i]);
    }
    for (int32_t i = 0; i < model->n_layers; i++) {
        struct les_layer * l = &model->layers[i];
        l->word0  = n_words;
        n_words  += (size_t) l->info.n_expert;
        l->router = -1;
        l->next   = -1;
        for (int32_t r = 0; r < model->n_routers; r++) {
            if (model->routers[r].block == l->info.block) {
                l->router = r;
            }
        }
        for (int32_t j = i + 1; j < model->n_layers && l->next < 0; j++) {
            if (strcmp(model->layers[j].kind, l->kind) == 0) {
                l->next = j;
            }
        }
    }
}

// Sorts the weights and gathers them into layers.
static int32_t les_model_gather(struct les_model * model) {
    qsort(model->weights, (size_t) model->n_weights, sizeof(*model->weights), les_weight_compare);
    model->layers = calloc((size_t) model->n_weights, sizeof(*model->layers));
    if (!model->layers) {
        les_model_errorf(model, "out of memory for %d layers", model->n_weights);
        return -1;
    }
    struct les_layer * layer = NULL;
    for (int32_t i = 0; i < model->n_weights; i++) {
        struct les_weight * w = model->weights[i];
        int32_t block;
        char    kind[GGML_MAX_NAME];
        les_parse_name(w->tensor->name, &block, kind);
        if (w->off == UINT64_MAX) {
            les_model_errorf(model, "tensor %s: the loader has not said where its bytes are", w->tensor->name);
            return -1;
        }
        if (w->rows) {
            continue;
        }
        if (!layer || layer->info.block != block || strcmp(layer->kind, kind) != 0) {
            layer = &model->layers[model->n_layers++];
            layer->info.block    = block;
            layer->info.n_expert = (int32_t) w->tensor->ne[2];
            memcpy(layer->kind, kind, sizeof(kind));
        }
        if (les_layer_add(model, layer, w) != 0) {
            return -1;
        }
    }
    return 0;
}

int32_t les_model_seal(struct les_model * model) {
    les_model_forget(model);
    model->owner = NULL;
    if (model->layers) {
        les_model_errorf(model, "les_model_seal: sealed before");
        return -1;
    }
    if (model->n_weights == 0) {
        return 0;
    }
    if (les_model_gather(model) != 0) {
        model->n_layers = 0; // nothing of it may be opened, and no graph may look for its layers
        for (int32_t i = 0; i < model->n_weights; i++) {
            model->weights[i]->layer = -1;
        }
        return -1;
    }
    for (int32_t i = 0; i < model->n_layers; i++) {
        les_layer_place(model, &model->layers[i]);
    }
    les_model_link(model);
    return model->n_layers;
}
