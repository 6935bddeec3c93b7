// Rows times inputs against upstream's vec_dot, bit for bit: every type with a kernel of our own, any bits in its blocks.

#include "les-test.h"

#include "les-node.h"

#include <math.h>

#define GGML_COMMON_DECL_C
#include "ggml-common.h"

#define N_ROWS 64

static uint64_t random_next(uint64_t * state) {
    *state = *state*6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

// Every bit of a block may be anything but those of its scales, which are below 1, subnormal numbers and both signs
// included; MXFP4's are at most 2^15.
static void fill_rows(enum ggml_type type, char * rows, int64_t n_blocks, uint64_t * state) {
    for (size_t i = 0; i < n_blocks*ggml_type_size(type); i++) {
        rows[i] = (char) random_next(state);
    }
    for (int64_t b = 0; b < n_blocks; b++) {
        switch (type) {
            case GGML_TYPE_Q3_K:
                ((block_q3_K *) rows)[b].d &= 0xBBFF;
                break;
            case GGML_TYPE_Q4_K:
                ((block_q4_K *) rows)[b].d    &= 0xBBFF;
                ((block_q4_K *) rows)[b].dmin &= 0xBBFF;
                break;
            default:
                ((block_mxfp4 *) rows)[b].e %= 144;
        }
    }
}

// Inputs from 1e-3 to 1e3, one block in four with a single value, one in eight zero.
static void fill_input(float * x, int64_t n, uint64_t * state) {
    const int64_t block = n % QK_K == 0 ? QK_K : QK_MXFP4;
    for (int64_t b = 0; b < n; b += block) {
        const uint64_t kind  = random_next(state) % 8;
        const float    scale = powf(10.0f, (float) (random_next(state) % 7) - 3.0f);
        for (int64_t i = 0; i < block; i++) {
            const float v = scale*((float) (random_next(state) % 20001)/10000.0f - 1.0f);
            x[b + i] = kind == 0 ? 0.0f : kind < 3 && i != 17 ? 0.0f : v;
        }
    }
}

static void compare(enum ggml_type type, int64_t n, int n_in, uint64_t seed) {
    const struct ggml_type_traits_cpu * traits = ggml_get_type_traits_cpu(type);
    struct ggml_tensor w = { .type = type, .ne = { n, N_ROWS, 1, 1 } };
    w.nb[1] = ggml_row_size(w.type, n);
    const size_t quantised = ggml_row_size(traits->vec_dot_type, n);
    const size_t in_bytes  = quantised + les_dot_sums_bytes(&w);
    const int64_t n_blocks = n/ggml_blck_size(traits->vec_dot_type);
    // Allocated to the byte, so that a sanitizer sees a read behind the last row.
    char *  rows = malloc(N_ROWS*w.nb[1]);
    char *  in   = malloc(n_in*in_bytes);
    float * x    = malloc(n*sizeof(float));
    float   out[LES_DOT_INPUTS_MAX][N_ROWS];
    const char * inputs[LES_DOT_INPUTS_MAX];
    float *      outs[LES_DOT_INPUTS_MAX];
    fill_rows(type, rows, N_ROWS*n/ggml_blck_size(type), &seed);
    for (int i = 0; i < n_in; i++) {
        char * row = in + i*in_bytes;
        fill_input(x, n, &seed);
        ggml_get_type_traits_cpu(traits->vec_dot_type)->from_float(x, row, n);
        if (in_bytes > quantised) {
            // As two threads would make them, which share a pair of blocks where the second one begins with an odd one.
            const int64_t between = (int64_t) (random_next(&seed) % (uint64_t) (n_blocks + 1));
            les_dot_sums(traits->vec_dot_type, row, row + quantised, between, n_blocks);
            les_dot_sums(traits->vec_dot_type, row, row + quantised, 0, between);
        }
        inputs[i] = row;
        outs[i]   = out[i];
    }
    les_dot_rows(&w, rows, N_ROWS, inputs, n_in, outs);
    for (int i = 0; i < n_in; i++) {
        for (int64_t r = 0; r < N_ROWS; r++) {
            float want;
            traits->vec_dot((int) n, &want, 0, rows + r*w.nb[1], 0, inputs[i], 0, 1);
            CHECKF(memcmp(&want, &out[i][r], sizeof(want)) == 0, "%s, %d values, input %d of %d, row %d: %.9g, want %.9g",
                   ggml_type_name(type), (int) n, i, n_in, (int) r, (double) out[i][r], (double) want);
        }
    }
    free(rows);
    free(in);
    free(x);
}

static void lengths_equal(enum ggml_type type, const int64_t * lengths, size_t n_lengths) {
    for (size_t i = 0; i < n_lengths; i++) {
        for (int n_in = 1; n_in <= LES_DOT_INPUTS_MAX; n_in++) {
            for (uint64_t seed = 0; seed < 20; seed++) {
                compare(type, lengths[i], n_in, seed*7919 + (uint64_t) n_in);
            }
        }
    }
}

static void each_row_equals_upstreams(void) {
    const int64_t wide[]   = { 256, 512, 768, 2048, 7168 };
    const int64_t narrow[] = { 32, 64, 96, 256, 2880, 4096 };
    lengths_equal(GGML_TYPE_Q3_K,  wide,   sizeof(wide)/sizeof(wide[0]));
    lengths_equal(GGML_TYPE_Q4_K,  wide,   sizeof(wide)/sizeof(wide[0]));
    lengths_equal(GGML_TYPE_MXFP4, narrow, sizeof(narrow)/sizeof(narrow[0]));
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    ggml_cpu_init();
    RUN(each_row_equals_upstreams);
    printf("ok\n");
    return 0;
}
