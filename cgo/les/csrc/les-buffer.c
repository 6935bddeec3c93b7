// The LES buffer type. It owns tensors that stay in their files, without memory behind them: only addresses that fault on
// any access.

#include "les-cpu.h"
#include "les-impl.h"
#include "les-os.h"

#include "ggml-backend-impl.h"
#include "ggml-cpu.h"

#include <stdlib.h>
#include <string.h>

struct les_buffer {
    struct les_model * model;
    void *             base;
    size_t             n_bytes;
};

static void les_buffer_free(ggml_backend_buffer_t buffer) {
    struct les_buffer * b = buffer->context;
    les_os_unreserve(b->base, b->n_bytes);
    les_model_unref(b->model);
    free(b);
}

static void * les_buffer_get_base(ggml_backend_buffer_t buffer) {
    return ((struct les_buffer *) buffer->context)->base;
}

static enum ggml_status les_buffer_init_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor) {
    if (tensor->view_src) {
        return GGML_STATUS_SUCCESS;
    }
    tensor->extra = les_model_add_weight(((struct les_buffer *) buffer->context)->model, tensor);
    return tensor->extra ? GGML_STATUS_SUCCESS : GGML_STATUS_ALLOC_FAILED;
}

// Nobody may write these tensors, or read whole experts; the loader skips them and graphs use slots.
static void les_buffer_set_tensor(ggml_backend_buffer_t buffer, struct ggml_tensor * tensor, const void * data, size_t offset, size_t size) {
    GGML_ABORT("tensor %s is streamed and cannot be written", tensor->name);
    GGML_UNUSED(buffer); GGML_UNUSED(data); GGML_UNUSED(offset); GGML_UNUSED(size);
}

// Rows can be had at any time. Those that cannot are zeros; the reason is the model's error.
static void les_buffer_get_tensor(ggml_backend_buffer_t buffer, const struct ggml_tensor * tensor, void * data, size_t offset, size_t size) {
    const struct les_weight * w = tensor->extra;
    if (!w || !w->rows) {
        GGML_ABORT("tensor %s is streamed and cannot be read as a whole", tensor->name);
    }
    if (!les_weight_read(w, data, offset, size)) {
        memset(data, 0, size);
    }
    GGML_UNUSED(buffer);
}

static void les_buffer_clear(ggml_backend_buffer_t buffer, uint8_t value) {
    GGML_UNUSED(buffer); GGML_UNUSED(value);
}

static const struct ggml_backend_buffer_i les_buffer_interface = {
    .free_buffer = les_buffer_free,
    .get_base    = les_buffer_get_base,
    .init_tensor = les_buffer_init_tensor,
    .set_tensor  = les_buffer_set_tensor,
    .get_tensor  = les_buffer_get_tensor,
    .clear       = les_buffer_clear,
};

static const char * les_buft_get_name(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return "LES";
}

static ggml_backend_buffer_t les_buft_alloc_buffer(ggml_backend_buffer_type_t buft, size_t size) {
    struct les_model *  model = les_model_loading();
    struct les_buffer * b     = model ? calloc(1, sizeof(*b)) : NULL;
    if (!b) {
        return NULL;
    }
    b->base    = les_os_reserve(size);
    b->n_bytes = size;
    b->model   = model;
    if (!b->base) {
        free(b);
        return NULL;
    }
    les_model_ref(model);
    return ggml_backend_buffer_init(buft, les_buffer_interface, b, size);
}

static size_t les_buft_get_alignment(ggml_backend_buffer_type_t buft) {
    GGML_UNUSED(buft);
    return 64;
}

ggml_backend_buffer_type_t les_cpu_buffer_type(void) {
    static struct ggml_backend_buffer_type buft = {
        .iface = {
            .get_name      = les_buft_get_name,
            .alloc_buffer  = les_buft_alloc_buffer,
            .get_alignment = les_buft_get_alignment,
        },
    };
    // Backends ask from any thread; the first one fills in the device.
    static _Atomic int32_t lock;
    les_lock(&lock);
    if (!buft.device) {
        buft.device = ggml_backend_reg_dev_get(ggml_backend_cpu_reg(), 0);
    }
    les_unlock(&lock);
    return &buft;
}
