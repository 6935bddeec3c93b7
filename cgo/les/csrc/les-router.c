// Routers as the lookahead uses them.

#include "les-impl.h"

#include "ggml-backend.h"

#include <stdlib.h>

// A router of 256 experts in F32 is megabytes, read once more for every layer and token by the lookahead. What is guessed
// need not be exact: a Q8_0 copy has a quarter of the bytes and ranks the same experts but for near ties.
void les_router_copy(struct les_router * r) {
    const struct ggml_tensor * w = r->weight;
    if (!w || !w->data || !w->buffer || !ggml_backend_buffer_is_host(w->buffer) || !ggml_is_contiguous(w)) {
        return;
    }
    r->guess = *w;
    if (w->type != GGML_TYPE_F32 || w->ne[0] % ggml_blck_size(GGML_TYPE_Q8_0) != 0) {
        return;
    }
    const size_t row = ggml_row_size(GGML_TYPE_Q8_0, w->ne[0]);
    r->copy = malloc(row*(size_t) w->ne[1]);
    if (!r->copy) {
        return;
    }
    ggml_quantize_chunk(GGML_TYPE_Q8_0, w->data, r->copy, 0, w->ne[1], w->ne[0], NULL);
    r->guess.type  = GGML_TYPE_Q8_0;
    r->guess.data  = r->copy;
    r->guess.nb[0] = ggml_type_size(GGML_TYPE_Q8_0);
    r->guess.nb[1] = row;
}
