// The contiguous layout: how a loader finds tensors in it, what it refuses, and which spans come of it.

#include "les-test.h"

#include "gguf.h"

#define N_BYTES (32*8*sizeof(float)) // of one expert's matrix

// Metadata of a file with up and down of 4 experts, one extent of 4096 bytes each; up at the start of the tensor data.
static struct gguf_context * metadata(uint32_t version) {
    static const char * const names[]   = { "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight" };
    static const char * const fillers[] = { "blk.0.ffn_exps.pad" };
    static const uint64_t offsets[] = { 0, N_BYTES };
    static const uint64_t strides[] = { LES_ALIGN, LES_ALIGN };
    struct gguf_context * gguf = gguf_init_empty();
    gguf_set_val_u32(gguf, "les.layout.version", version);
    gguf_set_arr_str(gguf, "les.layout.tensors", (const char **) names, 2);
    gguf_set_arr_str(gguf, "les.layout.fillers", (const char **) fillers, 1);
    gguf_set_arr_data(gguf, "les.layout.offsets", GGUF_TYPE_UINT64, offsets, 2);
    gguf_set_arr_data(gguf, "les.layout.strides", GGUF_TYPE_UINT64, strides, 2);
    return gguf;
}

static struct ggml_context * descriptions(void) {
    struct ggml_init_params params = { .mem_size = 16*ggml_tensor_overhead(), .no_alloc = true };
    struct ggml_context * ctx = ggml_init(params);
    CHECK(ctx);
    return ctx;
}

static struct ggml_tensor * described(struct ggml_context * ctx, const char * name) {
    struct ggml_tensor * t = ggml_new_tensor_3d(ctx, GGML_TYPE_F32, 32, 8, 4);
    ggml_set_name(t, name);
    return t;
}

#define END (3*LES_ALIGN + 2*N_BYTES) // of the last expert

static void tensors_are_found_under_either_name(void) {
    struct gguf_context * gguf = metadata(1);
    struct ggml_context * ctx  = descriptions();
    static const char * const stored[] = { "blk.0.ffn_down_exps.weight.les", "blk.0.ffn_down_exps.weight" };
    for (int i = 0; i < 2; i++) {
        struct ggml_tensor * t = described(ctx, stored[i]);
        CHECK(les_hook_weight_stride(t) == 0);
        for (int again = 0; again < 2; again++) { // a loader may ask twice
            uint64_t off = 77;
            CHECK(les_hook_weight_place(gguf, 1, END, t, &off) == LES_PLACE_EXPERTS);
            CHECK(off == N_BYTES && les_hook_weight_stride(t) == LES_ALIGN);
            CHECK(strcmp(t->name, "blk.0.ffn_down_exps.weight") == 0);
        }
    }
    ggml_free(ctx);
    gguf_free(gguf);
}

static void other_tensors_stay_and_fillers_go(void) {
    struct gguf_context * gguf  = metadata(1);
    struct gguf_context * stock = gguf_init_empty();
    struct ggml_context * ctx   = descriptions();
    struct ggml_tensor * norm = described(ctx, "blk.0.ffn_norm.weight");
    struct ggml_tensor * bias = described(ctx, "blk.0.ffn_down_exps.bias");
    struct ggml_tensor * odd  = described(ctx, "blk.9.ffn_up_exps.weight.les"); // not in the list: the model will not find it
    struct ggml_tensor * pad  = described(ctx, "blk.0.ffn_exps.pad");
    uint64_t off = 77;
    CHECK(les_hook_weight_place(gguf, 1, END, norm, &off) == LES_PLACE_PLAIN);
    CHECK(les_hook_weight_place(gguf, 1, END, bias, &off) == LES_PLACE_PLAIN);
    CHECK(les_hook_weight_place(gguf, 1, END, odd,  &off) == LES_PLACE_PLAIN);
    CHECK(les_hook_weight_place(gguf, 1, END, pad,  &off) == LES_PLACE_FILLER);
    CHECK(les_hook_weight_place(stock, 1, END, pad, &off) == LES_PLACE_PLAIN);
    CHECK(les_hook_weight_place(stock, 3, END, odd, &off) == LES_PLACE_PLAIN);
    CHECK(off == 77 && les_hook_weight_stride(norm) == 0 && strcmp(odd->name, "blk.9.ffn_up_exps.weight.les") == 0);
    ggml_free(ctx);
    gguf_free(stock);
    gguf_free(gguf);
}

static void check_refused(struct gguf_context * gguf, size_t n_files, uint64_t file_bytes) {
    struct ggml_context * ctx = descriptions();
    struct ggml_tensor *  t   = described(ctx, "blk.0.ffn_down_exps.weight.les");
    uint64_t off = 77;
    CHECK(les_hook_weight_place(gguf, n_files, file_bytes, t, &off) == LES_PLACE_REFUSED);
    CHECK(off == 77 && les_hook_weight_stride(t) == 0);
    ggml_free(ctx);
    gguf_free(gguf);
}

static struct gguf_context * with_numbers(const char * key, uint64_t value, size_t n) {
    struct gguf_context * gguf = metadata(1);
    const uint64_t values[] = { value, value };
    gguf_set_arr_data(gguf, key, GGUF_TYPE_UINT64, values, n);
    return gguf;
}

static void what_cannot_be_is_refused(void) {
    check_refused(metadata(2), 1, END);
    check_refused(metadata(1), 2, END);
    check_refused(metadata(1), 1, END - 1); // cut off
    check_refused(with_numbers("les.layout.offsets", 0, 1), 1, END);
    check_refused(with_numbers("les.layout.strides", LES_ALIGN, 1), 1, END);
    check_refused(with_numbers("les.layout.offsets", UINT64_MAX, 2), 1, END);
    check_refused(with_numbers("les.layout.strides", 0, 2), 1, END);
    check_refused(with_numbers("les.layout.strides", LES_ALIGN + 32, 2), 1, END);
    check_refused(with_numbers("les.layout.strides", UINT64_MAX/LES_ALIGN*LES_ALIGN, 2), 1, END);
    struct gguf_context * gguf = metadata(1);
    gguf_set_val_str(gguf, "les.layout.version", "1");
    check_refused(gguf, 1, END);
    gguf = metadata(1);
    gguf_set_val_u32(gguf, "les.layout.strides", LES_ALIGN);
    check_refused(gguf, 1, END);
}

// Gate and up are one span, down is another; both touch in the file and in the slot, for every expert.
static void extent_has_two_spans_that_touch(void) {
    for (int merged = 0; merged < 2; merged++) {
        const struct fake_layer layer = {
            .block = 0, .n_expert = 5, .n_embd = 256, .n_ff = 96, .type = { GGML_TYPE_Q4_K, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0 },
            .merged = merged, .contiguous = true,
        };
        struct fake_model m;
        fake_model_init(&m, &layer, 1, 7);
        const struct les_layer_info info = les_model_layer(m.les, 0);
        const struct les_span * a = &info.spans[0];
        const struct les_span * b = &info.spans[1];
        CHECK(info.n_spans == 2 && a->stride == b->stride && a->stride % LES_ALIGN == 0 && a->off % LES_ALIGN == 0);
        CHECK(a->off + a->n_bytes == b->off && a->slot_off == 0 && b->slot_off % LES_ALIGN == 0);
        CHECK(b->slot_off + b->off % LES_ALIGN == a->n_bytes);
        CHECK(les_model_slot_bytes(m.les) == a->stride);
        fake_model_free(&m);
    }
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(tensors_are_found_under_either_name);
    RUN(other_tensors_stay_and_fillers_go);
    RUN(what_cannot_be_is_refused);
    RUN(extent_has_two_spans_that_touch);
    printf("ok\n");
    return 0;
}
