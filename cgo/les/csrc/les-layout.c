// The contiguous layout as a loader meets it: expert tensors under other names, their experts apart from each other in
// extents that hold one expert each, and fillers. The metadata of the file say where; lesext/layout writes them.

#include "les-impl.h"

#include "ggml-impl.h"
#include "gguf.h"

#include <string.h>

#define LES_LAYOUT_VERSION 1
#define LES_LAYOUT_SUFFIX  ".les" // of expert tensors, so that programs that do not know the layout miss them

// Number of a text in an array of them; -1 where it is not in it or there is no such array.
static int64_t les_find_text(const struct gguf_context * gguf, const char * key, const char * text, size_t n_text) {
    const int64_t id = gguf_find_key(gguf, key);
    if (id < 0 || gguf_get_kv_type(gguf, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(gguf, id) != GGUF_TYPE_STRING) {
        return -1;
    }
    const size_t n = gguf_get_arr_n(gguf, id);
    for (size_t i = 0; i < n; i++) {
        const char * one = gguf_get_arr_str(gguf, id, i);
        if (strncmp(one, text, n_text) == 0 && one[n_text] == 0) {
            return (int64_t) i;
        }
    }
    return -1;
}

static bool les_get_number(const struct gguf_context * gguf, const char * key, int64_t i, uint64_t * value) {
    const int64_t id = gguf_find_key(gguf, key);
    if (id < 0 || gguf_get_kv_type(gguf, id) != GGUF_TYPE_ARRAY || gguf_get_arr_type(gguf, id) != GGUF_TYPE_UINT64 ||
        (uint64_t) i >= gguf_get_arr_n(gguf, id)) {
        return false;
    }
    *value = ((const uint64_t *) gguf_get_arr_data(gguf, id))[i];
    return true;
}

static bool les_version_known(const struct gguf_context * gguf, int64_t id) {
    if (gguf_get_kv_type(gguf, id) != GGUF_TYPE_UINT32) {
        GGML_LOG_ERROR("les.layout.version is not a u32\n");
        return false;
    }
    const uint32_t version = gguf_get_val_u32(gguf, id);
    if (version != LES_LAYOUT_VERSION) {
        GGML_LOG_ERROR("les.layout.version is %u, only %d is known\n", version, LES_LAYOUT_VERSION);
        return false;
    }
    return true;
}

// Nothing is read outside of the file, whatever the metadata say.
static bool les_extents_fit(const struct ggml_tensor * meta, uint64_t data_off, uint64_t off, uint64_t stride, uint64_t file_bytes) {
    const uint64_t n_bytes = meta->nb[2];
    if (meta->ne[2] < 1 || meta->ne[3] != 1 || stride < n_bytes || stride % LES_ALIGN != 0) {
        return false;
    }
    if (data_off > file_bytes || off > file_bytes - data_off || n_bytes > file_bytes - data_off - off) {
        return false;
    }
    return (uint64_t) (meta->ne[2] - 1) <= (file_bytes - data_off - off - n_bytes)/stride;
}

enum les_place les_hook_weight_place(const struct gguf_context * gguf, size_t n_files, uint64_t file_bytes, struct ggml_tensor * meta, uint64_t * off) {
    const int64_t version = gguf_find_key(gguf, "les.layout.version");
    if (version < 0) {
        return LES_PLACE_PLAIN;
    }
    if (!les_version_known(gguf, version)) {
        return LES_PLACE_REFUSED;
    }
    if (n_files != 1) {
        GGML_LOG_ERROR("the contiguous layout is of one file, not of %zu\n", n_files);
        return LES_PLACE_REFUSED;
    }
    size_t n_name = strlen(meta->name);
    if (les_find_text(gguf, "les.layout.fillers", meta->name, n_name) >= 0) {
        return LES_PLACE_FILLER;
    }
    const size_t n_suffix = strlen(LES_LAYOUT_SUFFIX);
    if (n_name > n_suffix && strcmp(meta->name + n_name - n_suffix, LES_LAYOUT_SUFFIX) == 0) {
        n_name -= n_suffix;
    }
    const int64_t i = les_find_text(gguf, "les.layout.tensors", meta->name, n_name);
    if (i < 0) {
        return LES_PLACE_PLAIN;
    }
    uint64_t first  = 0;
    uint64_t stride = 0;
    if (!les_get_number(gguf, "les.layout.offsets", i, &first) || !les_get_number(gguf, "les.layout.strides", i, &stride)) {
        GGML_LOG_ERROR("tensor %s: les.layout.offsets and les.layout.strides do not have it\n", meta->name);
        return LES_PLACE_REFUSED;
    }
    if (!les_extents_fit(meta, gguf_get_data_offset(gguf), first, stride, file_bytes)) {
        GGML_LOG_ERROR("tensor %s: %d experts of %zu bytes, %llu apart from offset %llu, are not in the file\n", meta->name,
                (int) meta->ne[2], meta->nb[2], (unsigned long long) stride, (unsigned long long) first);
        return LES_PLACE_REFUSED;
    }
    meta->name[n_name] = 0;
    memcpy((char *) meta->op_params + LES_PARAM_STRIDE*sizeof(int32_t), &stride, sizeof(stride));
    *off = gguf_get_data_offset(gguf) + first;
    return LES_PLACE_EXPERTS;
}

uint64_t les_hook_weight_stride(const struct ggml_tensor * meta) {
    uint64_t stride;
    memcpy(&stride, (const char *) meta->op_params + LES_PARAM_STRIDE*sizeof(int32_t), sizeof(stride));
    return stride;
}
