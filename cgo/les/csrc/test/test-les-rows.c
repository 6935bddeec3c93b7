// Rows of a tensor that stays in its file: upstream's bits, each row read once, and every failure a failed step.

#include "les-test.h"

#include <fcntl.h>

#define N_EMBD  256
#define N_VOCAB 50
#define N_FILE  1    // the number of the file: a part that is not the first
#define OFF     1032 // of the tensor in its file

// The same matrix twice: in memory, and in a file for LES.
struct rig {
    char                  path[64];
    struct les_model *    les;
    struct ggml_context * ctx;
    struct ggml_context * ctx_stream;
    struct ggml_tensor *  plain;
    struct ggml_tensor *  stream;
    ggml_backend_buffer_t buf_plain;
    ggml_backend_buffer_t buf_stream;
};

static struct ggml_context * context_new(void) {
    struct ggml_init_params params = { .mem_size = 16*ggml_tensor_overhead() + ggml_graph_overhead(), .no_alloc = true };
    struct ggml_context * ctx = ggml_init(params);
    CHECK(ctx);
    return ctx;
}

static struct ggml_tensor * embeddings(struct ggml_context * ctx, enum ggml_type type) {
    struct ggml_tensor * t = ggml_new_tensor_2d(ctx, type, N_EMBD, N_VOCAB);
    ggml_set_name(t, "token_embd.weight");
    return t;
}

static void file_write(const struct rig * r) {
    FILE * f = fopen(r->path, "wb");
    CHECK(f);
    for (int i = 0; i < OFF; i++) {
        CHECK(fputc('x', f) == 'x');
    }
    CHECK(fwrite(r->plain->data, 1, ggml_nbytes(r->plain), f) == ggml_nbytes(r->plain));
    CHECK(fclose(f) == 0);
}

static void fill(struct ggml_tensor * t) {
    static float values[N_EMBD*N_VOCAB];
    uint64_t state = 4242;
    fill_floats(values, N_EMBD*N_VOCAB, 0.7f, &state);
    if (t->type == GGML_TYPE_F32) {
        memcpy(t->data, values, sizeof(values));
    } else {
        CHECK(ggml_quantize_chunk(t->type, values, t->data, 0, N_VOCAB, N_EMBD, NULL) == ggml_nbytes(t));
    }
}

static void rig_init(struct rig * r, enum ggml_type type) {
    memset(r, 0, sizeof(*r));
    snprintf(r->path, sizeof(r->path), "test-les-rows-XXXXXX");
    const int fd = mkstemp(r->path);
    CHECK(fd >= 0 && close(fd) == 0);
    r->ctx        = context_new();
    r->ctx_stream = context_new();
    r->plain      = embeddings(r->ctx, type);
    r->stream     = embeddings(r->ctx_stream, type);
    r->buf_plain  = ggml_backend_alloc_ctx_tensors_from_buft(r->ctx, ggml_backend_cpu_buffer_type());
    fill(r->plain);
    file_write(r);
    r->les = les_model_new();
    CHECK(les_model_set_pending(r->les) == 0);
    ggml_backend_buffer_type_t buft = les_hook_weight_buft(r, r->stream, ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    CHECK(buft);
    r->buf_stream = ggml_backend_alloc_ctx_tensors_from_buft(r->ctx_stream, buft);
    ggml_backend_buffer_set_usage(r->buf_stream, GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    CHECK(les_hook_weight_data(r, r->stream, N_FILE, OFF, 0));
    CHECK(les_model_seal(r->les) == 0); // rows are no layer
}

static void rig_open(struct rig * r) {
    CHECK(les_model_set_file(r->les, 0, "there is nothing in this one") == 0);
    CHECK(les_model_set_file(r->les, N_FILE, r->path) == 0);
}

static void rig_free(struct rig * r) {
    les_model_unref(r->les);
    ggml_backend_buffer_free(r->buf_stream);
    ggml_backend_buffer_free(r->buf_plain);
    ggml_free(r->ctx_stream);
    ggml_free(r->ctx);
    CHECK(unlink(r->path) == 0);
}

// A graph of one op on a matrix.
struct look {
    struct ggml_context * ctx;
    struct ggml_cgraph *  graph;
    struct ggml_tensor *  ids;
    struct ggml_tensor *  out;
    ggml_backend_t        backend;
    ggml_backend_buffer_t buffer;
};

static void look_init(struct look * l, struct ggml_tensor * matrix, int n_ids, int n_threads) {
    l->ctx   = context_new();
    l->ids   = ggml_new_tensor_1d(l->ctx, GGML_TYPE_I32, n_ids);
    l->out   = ggml_get_rows(l->ctx, matrix, l->ids);
    l->graph = ggml_new_graph(l->ctx);
    ggml_build_forward_expand(l->graph, ggml_soft_max(l->ctx, l->out)); // a node that wants all threads
    l->buffer  = ggml_backend_alloc_ctx_tensors_from_buft(l->ctx, ggml_backend_cpu_buffer_type());
    l->backend = ggml_backend_cpu_init();
    ggml_backend_cpu_set_n_threads(l->backend, n_threads);
    CHECK(ggml_backend_supports_op(l->backend, l->out));
    uint64_t state = 99;
    for (int i = 0; i < n_ids; i++) {
        ((int32_t *) l->ids->data)[i] = (int32_t) (chance(&state) % N_VOCAB);
    }
}

static void look_run(struct look * l) {
    CHECK(ggml_backend_graph_compute(l->backend, l->graph) == GGML_STATUS_SUCCESS);
}

static void look_free(struct look * l) {
    ggml_backend_buffer_free(l->buffer);
    ggml_backend_free(l->backend);
    ggml_free(l->ctx);
}

static void check_works(struct rig * r, struct look * l) {
    look_run(l);
    CHECKF(!les_hook_graph_failed(l->graph), "%s", les_model_take_error(r->les));
    struct look plain;
    look_init(&plain, r->plain, (int) l->ids->ne[0], 1);
    memcpy(plain.ids->data, l->ids->data, ggml_nbytes(l->ids));
    look_run(&plain);
    CHECK(!les_hook_graph_failed(plain.graph));
    CHECK(memcmp(plain.out->data, l->out->data, ggml_nbytes(l->out)) == 0);
    look_free(&plain);
}

static void check_fails(struct rig * r, struct look * l, const char * part) {
    look_run(l);
    CHECK(les_hook_graph_failed(l->graph));
    const char * error = les_model_take_error(r->les);
    CHECKF(strstr(error, part) && strstr(error, "token_embd.weight"), "%s, want %s", error, part);
    for (int64_t i = 0; i < ggml_nelements(l->out); i++) {
        CHECK(((const float *) l->out->data)[i] == 0.0f);
    }
}

static const enum ggml_type types[] = {
    GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q3_K, GGML_TYPE_Q4_K, GGML_TYPE_Q6_K, GGML_TYPE_IQ4_XS,
};

static void rows_are_upstreams_bit_for_bit(void) {
    static const int widths[] = { 1, 2, 7, 300 };
    for (size_t i = 0; i < sizeof(types)/sizeof(types[0]); i++) {
        struct rig r;
        rig_init(&r, types[i]);
        rig_open(&r);
        for (int k = 0; k < 8; k++) {
            struct look l;
            look_init(&l, r.stream, widths[k % 4], k < 4 ? 1 : 3);
            check_works(&r, &l);
            check_works(&r, &l);
            look_free(&l);
        }
        rig_free(&r);
    }
}

// Calls of read that this process has made, those of this function included; -1 where the system does not count.
static long reads_made(void) {
#ifdef _WIN32
    return -1; // wine shows the file of the Linux below it, which counts wine's reads too
#endif
    char text[512] = "";
    const int fd = open("/proc/self/io", O_RDONLY);
    if (fd < 0) {
        return -1;
    }
    const ssize_t n = read(fd, text, sizeof(text) - 1);
    close(fd);
    const char * at = n > 0 ? strstr(text, "syscr: ") : NULL;
    return at ? atol(at + strlen("syscr: ")) : -1;
}

static void each_distinct_row_is_read_once(void) {
    struct rig r;
    rig_init(&r, GGML_TYPE_Q4_K);
    rig_open(&r);
    for (int n_threads = 1; n_threads < 4; n_threads++) {
        struct look l;
        look_init(&l, r.stream, 300, n_threads);
        for (int i = 0; i < 300; i++) {
            ((int32_t *) l.ids->data)[i] = i % 3 == 0 ? 7 : i % 11;
        }
        const long before = reads_made();
        look_run(&l);
        const long made = reads_made() - before - 1;
        CHECKF(before < 0 || made == 11, "%ld reads for 11 rows", made);
        check_works(&r, &l);
        look_free(&l);
    }
    rig_free(&r);
}

static void file_that_shrinks_fails_the_step_and_no_more(void) {
    struct rig r;
    rig_init(&r, GGML_TYPE_Q8_0);
    rig_open(&r);
    for (int n_threads = 1; n_threads < 4; n_threads += 2) {
        struct look l;
        look_init(&l, r.stream, 20, n_threads);
        ((int32_t *) l.ids->data)[19] = N_VOCAB - 1;
        check_works(&r, &l);
        CHECK(truncate(r.path, (off_t) (OFF + ggml_nbytes(r.plain) - 1)) == 0);
        check_fails(&r, &l, "unexpected EOF");
        check_fails(&r, &l, r.path);
        file_write(&r);
        check_works(&r, &l);
        look_free(&l);
    }
    rig_free(&r);
}

static void file_that_cannot_be_read_fails_the_step_by_name(void) {
    struct rig r;
    struct look l;
    rig_init(&r, GGML_TYPE_Q8_0);
    look_init(&l, r.stream, 3, 2);
    check_fails(&r, &l, "les_model_set_file");
    CHECK(les_model_set_file(r.les, N_FILE, "/tmp/test-les-rows-none") == -1);
    CHECK(strstr(les_model_take_error(r.les), "/tmp/test-les-rows-none: No such file"));
#ifndef _WIN32 // which opens no folder
    CHECK(les_model_set_file(r.les, N_FILE, "/tmp") == 0); // opens, but every read of a folder fails
    check_fails(&r, &l, "read /tmp at 0x");
    check_fails(&r, &l, "Is a directory");
#endif
    rig_open(&r);
    check_works(&r, &l);
    look_free(&l);
    rig_free(&r);
}

static void unknown_row_fails_the_step_and_no_more(void) {
    static const int32_t wrong[] = { -1, N_VOCAB, INT32_MAX, INT32_MIN };
    struct rig r;
    rig_init(&r, GGML_TYPE_F16);
    rig_open(&r);
    for (int i = 0; i < 4; i++) {
        struct look l;
        look_init(&l, r.stream, 5, 2);
        ((int32_t *) l.ids->data)[i] = wrong[i];
        check_fails(&r, &l, "has no row");
        ((int32_t *) l.ids->data)[i] = 0;
        check_works(&r, &l);
        look_free(&l);
    }
    rig_free(&r);
}

// No architecture does this where the output matrix is another tensor; if one will, it is told.
static void other_ops_fail_by_name(void) {
    struct rig r;
    rig_init(&r, GGML_TYPE_Q8_0);
    rig_open(&r);
    struct ggml_context * ctx = context_new();
    struct ggml_tensor *  x   = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, N_EMBD);
    struct look l = { .ctx = ctx, .out = ggml_mul_mat(ctx, r.stream, x), .graph = ggml_new_graph(ctx) };
    ggml_build_forward_expand(l.graph, l.out);
    l.buffer  = ggml_backend_alloc_ctx_tensors_from_buft(ctx, ggml_backend_cpu_buffer_type());
    l.backend = ggml_backend_cpu_init();
    memset(x->data, 0, ggml_nbytes(x));
    CHECK(ggml_backend_supports_op(l.backend, l.out));
    check_fails(&r, &l, "MUL_MAT cannot be computed");
    look_free(&l);
    rig_free(&r);
}

static void whole_tensor_can_be_read(void) {
    struct rig r;
    rig_init(&r, GGML_TYPE_Q6_K);
    rig_open(&r);
    const size_t n_bytes = ggml_nbytes(r.stream);
    uint8_t * data = malloc(n_bytes);
    ggml_backend_tensor_get(r.stream, data, 0, n_bytes);
    CHECK(memcmp(data, r.plain->data, n_bytes) == 0);
    ggml_backend_tensor_get(r.stream, data, 100, 50);
    CHECK(memcmp(data, (const uint8_t *) r.plain->data + 100, 50) == 0);
    CHECK(truncate(r.path, OFF) == 0);
    ggml_backend_tensor_get(r.stream, data, 0, n_bytes);
    for (size_t i = 0; i < n_bytes; i++) {
        CHECK(data[i] == 0);
    }
    CHECK(strstr(les_model_take_error(r.les), "unexpected EOF"));
    free(data);
    rig_free(&r);
}

static void * run_some(void * user) {
    for (int i = 0; i < 50; i++) {
        look_run(user);
    }
    return NULL;
}

// Contexts of one model share its files.
static void contexts_read_beside_each_other(void) {
    struct rig r;
    rig_init(&r, GGML_TYPE_Q4_K);
    rig_open(&r);
    struct look l[2];
    pthread_t thread[2];
    for (int i = 0; i < 2; i++) {
        look_init(&l[i], r.stream, 20 + i, 2);
        CHECK(pthread_create(&thread[i], NULL, run_some, &l[i]) == 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
        check_works(&r, &l[i]);
        look_free(&l[i]);
    }
    rig_free(&r);
}

static void only_token_embeddings_have_rows(void) {
    struct les_model *    model = les_model_new();
    struct ggml_context * ctx   = context_new();
    CHECK(les_model_set_pending(model) == 0);
    static const char * const names[] = { "per_layer_token_embd.weight", "output.weight", "token_embd.bias", "blk.0.nextn.embed_tokens.weight" };
    for (size_t i = 0; i < sizeof(names)/sizeof(names[0]); i++) {
        struct ggml_tensor * t = embeddings(ctx, GGML_TYPE_F32);
        ggml_set_name(t, names[i]);
        CHECK(!les_hook_weight_buft(ctx, t, ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)));
    }
    ggml_free(ctx);
    les_model_unref(model);
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(only_token_embeddings_have_rows);
    RUN(rows_are_upstreams_bit_for_bit);
    RUN(each_distinct_row_is_read_once);
    RUN(file_that_shrinks_fails_the_step_and_no_more);
    RUN(file_that_cannot_be_read_fails_the_step_by_name);
    RUN(unknown_row_fails_the_step_and_no_more);
    RUN(other_ops_fail_by_name);
    RUN(whole_tensor_can_be_read);
    RUN(contexts_read_beside_each_other);
    printf("ok\n");
    return 0;
}
