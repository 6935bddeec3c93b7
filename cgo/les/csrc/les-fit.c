#include "les-fit.h"
#include "les-host.h"
#include "les-impl.h"

#include "ggml-backend.h"
#include "gguf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// the model

static uint64_t les_file_bytes(const char * path) {
    const int handle = les_os_file_open(path);
    if (handle < 0) {
        return 0;
    }
    const uint64_t n_bytes = les_os_file_bytes(handle);
    les_os_file_close(handle);
    return n_bytes;
}

// A whole number of the metadata, 0 where there is none; of an array, its largest.
static int64_t les_meta_number(const struct gguf_context * gguf, const char * key) {
    const int64_t id = gguf_find_key(gguf, key);
    if (id < 0) {
        return 0;
    }
    switch (gguf_get_kv_type(gguf, id)) {
        case GGUF_TYPE_UINT16: return gguf_get_val_u16(gguf, id);
        case GGUF_TYPE_INT32:  return gguf_get_val_i32(gguf, id);
        case GGUF_TYPE_UINT32: return gguf_get_val_u32(gguf, id);
        case GGUF_TYPE_INT64:  return gguf_get_val_i64(gguf, id);
        case GGUF_TYPE_UINT64: return (int64_t) gguf_get_val_u64(gguf, id);
        case GGUF_TYPE_ARRAY:  break;
        default:               return 0;
    }
    const enum gguf_type kind = gguf_get_arr_type(gguf, id);
    if (kind != GGUF_TYPE_INT32 && kind != GGUF_TYPE_UINT32) {
        return 0;
    }
    const int32_t * values = gguf_get_arr_data(gguf, id);
    int64_t largest = 0;
    for (size_t i = 0; i < gguf_get_arr_n(gguf, id); i++) {
        largest = values[i] > largest ? values[i] : largest;
    }
    return largest;
}

// A number under a key that begins with the name of the architecture.
static int32_t les_arch_number(const struct gguf_context * gguf, const char * name) {
    const int64_t id = gguf_find_key(gguf, "general.architecture");
    if (id < 0 || gguf_get_kv_type(gguf, id) != GGUF_TYPE_STRING) {
        return 0;
    }
    char key[256];
    snprintf(key, sizeof(key), "%s.%s", gguf_get_val_str(gguf, id), name);
    return (int32_t) les_meta_number(gguf, key);
}

// Bytes of the parts of a split model, whose names differ in their number only.
static uint64_t les_parts_bytes(const char * path, int64_t n_parts) {
    char end[64];
    snprintf(end, sizeof(end), "-%05d-of-%05d.gguf", 1, (int) n_parts);
    const size_t n = strlen(path), n_end = strlen(end);
    if (n < n_end || strcmp(path + n - n_end, end) != 0) {
        return les_file_bytes(path)*(uint64_t) n_parts; // named otherwise: parts are about equally large
    }
    char * part = malloc(n + 32);
    uint64_t sum = 0;
    for (int64_t i = 0; part && i < n_parts; i++) {
        snprintf(part, n + 32, "%.*s-%05d-of-%05d.gguf", (int) (n - n_end), path, (int) i + 1, (int) n_parts);
        sum += les_file_bytes(part);
    }
    free(part);
    return sum;
}

// The last look of this thread, and how large its first file was. A program that chooses the length of a context looks just
// before the load does, and metadata of a large vocabulary take some 60 ms to read.
static _Thread_local struct {
    char            path[1024];
    uint64_t        n_bytes;
    struct les_look look;
} les_seen;

struct les_look les_look_again(const char * path) {
    const bool same = *path && strcmp(path, les_seen.path) == 0 && les_file_bytes(path) == les_seen.n_bytes;
    const struct les_look look = same ? les_seen.look : les_look_at(path);
    les_seen.path[0] = 0; // a later load reads again: the file may be another one of the same size
    return look;
}

struct les_look les_look_at(const char * path) {
    struct les_look look = { 0 };
    les_seen.path[0] = 0;
    struct gguf_context * gguf = gguf_init_from_file(path, (struct gguf_init_params) { .no_alloc = true });
    if (!gguf) {
        return look;
    }
    look.read    = true;
    look.experts = les_arch_number(gguf, "expert_count");
    look.blocks  = les_arch_number(gguf, "block_count");
    look.trained = les_arch_number(gguf, "context_length");
    const int64_t n_parts = les_meta_number(gguf, "split.count");
    look.n_bytes = n_parts > 1 && n_parts <= 9999 ? les_parts_bytes(path, n_parts) : les_file_bytes(path);
    gguf_free(gguf);
    if (strlen(path) < sizeof(les_seen.path)) {
        strcpy(les_seen.path, path);
        les_seen.n_bytes = les_file_bytes(path);
        les_seen.look    = look;
    }
    return look;
}

// the memory

// Calls fn with each line of a small text file of the system; false where it cannot be read.
static bool les_each_line(const char * name, void (*fn)(const char * line, void * user), void * user) {
    FILE * file = fopen(name, "r");
    if (!file) {
        return false;
    }
    char line[4096];
    while (fgets(line, sizeof(line), file)) {
        line[strcspn(line, "\n")] = 0;
        fn(line, user);
    }
    fclose(file);
    return true;
}

static void les_take_limit(const char * line, void * user) {
    uint64_t limit;
    // No limit is the word max, or in the first version of the interface the largest number of pages.
    if (sscanf(line, "%" SCNu64, &limit) == 1 && limit < (uint64_t) 1 << 60) {
        *(uint64_t *) user = limit;
    }
}

static uint64_t les_less(uint64_t a, uint64_t b) {
    return a == 0 || (b != 0 && b < a) ? b : a; // 0 is none
}

// Each group is bound by those above it.
uint64_t les_memory_least_limit(const char * root, const char * group, const char * file) {
    char at[4096], name[8400];
    uint64_t least = 0;
    snprintf(at, sizeof(at), "%s", group);
    for (;;) {
        uint64_t limit = 0;
        snprintf(name, sizeof(name), "%s%s/%s", root, at, file);
        if (les_each_line(name, les_take_limit, &limit)) {
            least = les_less(least, limit);
        }
        char * slash = strrchr(at, '/');
        if (!slash || at[0] == 0) {
            return least;
        }
        *slash = 0;
    }
}

// A line of /proc/self/cgroup: number, controllers, path. The second version of the interface has no controllers.
static void les_take_group(const char * line, void * user) {
    const char * controllers = strchr(line, ':');
    const char * path        = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) {
        return;
    }
    const size_t n = (size_t) (path - controllers - 1);
    if (n == 0) {
        *(uint64_t *) user = les_less(*(uint64_t *) user, les_memory_least_limit("/sys/fs/cgroup", path + 1, "memory.max"));
    } else if (n == 6 && strncmp(controllers + 1, "memory", 6) == 0) {
        *(uint64_t *) user = les_less(*(uint64_t *) user, les_memory_least_limit("/sys/fs/cgroup/memory", path + 1, "memory.limit_in_bytes"));
    }
}

uint64_t les_memory_group_limit(void) {
    uint64_t least = 0;
    les_each_line("/proc/self/cgroup", les_take_group, &least);
    return least;
}

uint64_t les_memory_available(void) {
    const uint64_t available = les_os_memory_available();
    return available ? les_less(available, les_memory_group_limit()) : 0;
}

// what is in it

bool les_memory_is_host(struct ggml_backend_buffer_type * buft) {
    ggml_backend_dev_t dev = ggml_backend_buft_get_device(buft);
    if (!dev || ggml_backend_buft_is_host(buft)) {
        return true;
    }
    const enum ggml_backend_dev_type type = ggml_backend_dev_type(dev); // others share the memory of the processor
    return type != GGML_BACKEND_DEVICE_TYPE_GPU && type != GGML_BACKEND_DEVICE_TYPE_META;
}

static _Thread_local uint64_t les_weight_bytes;

// A weight that is to be mapped has no buffer yet.
void les_memory_note_weight(const struct ggml_tensor * tensor) {
    if (!tensor->buffer || les_memory_is_host(ggml_backend_buffer_get_type(tensor->buffer))) {
        les_weight_bytes += ggml_nbytes(tensor);
    }
}

uint64_t les_memory_take_weights(void) {
    const uint64_t n_bytes = les_weight_bytes;
    les_weight_bytes = 0;
    return n_bytes;
}

bool les_too_large(const struct les_look * look, uint64_t * available) {
    *available = les_memory_available();
    return *available > 0 && (double) look->n_bytes > LES_BUDGET_SHARE*(double) *available;
}

bool les_host_would_stream(const char * path) {
    return les_host_context_tokens(path) > 0;
}

uint32_t les_host_context_tokens(const char * path) {
    struct les_options options;
    if (les_options_now(&options) || options.mode == LES_MODE_OFF) {
        return 0;
    }
    const struct les_look look = les_look_at(path);
    uint64_t available;
    const bool too_large = les_too_large(&look, &available);
    if (look.experts == 0 || (options.mode != LES_MODE_ON && !too_large)) {
        return 0;
    }
    const uint64_t budget = options.budget > 0 ? (uint64_t) options.budget : (uint64_t) (LES_BUDGET_SHARE*(double) available);
    uint32_t tokens = 4096;
    while (tokens < 32768 && 2*(uint64_t) tokens <= budget >> 20) {
        tokens *= 2;
    }
    return look.trained > 0 && (uint32_t) look.trained < tokens ? (uint32_t) look.trained : tokens;
}
