// Rows of a matrix times a few inputs. What comes out is, bit for bit, what upstream's vec_dot gives for each pair.

#include "les-node.h"

#include "simd-mappings.h"

#define GGML_COMMON_DECL_C
#include "ggml-common.h"
#define GGML_COMMON_IMPL_C
#include "ggml-common.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <immintrin.h>

// Q3_K on AVX2. Upstream splits each weight into two low bits and a high bit of minus four, and multiplies both parts by
// the input. Here a weight is one number of 0..7, multiplied once, and four times the input is subtracted, which is the
// same for all rows and computed once (les_dot_sums). A row is taken apart once for all inputs. All of that is exact in
// integers; the only rounding steps - the product of the two scales, one fused multiply-add for each block and lane, the
// sum of the lanes - are upstream's in upstream's order.

#define LES_Q3_K_GROUPS (QK_K/32)

// How far ahead of a kernel the next rows are fetched. The processor's own prefetching does not keep up with blocks of 17 or
// 110 bytes that take so few steps each: from memory, both kernels are a sixth faster with it on small pages, a twentieth on
// huge ones. Upstream's kernels for types of less arithmetic a byte lose by it.
#define LES_FETCH_BYTES 2048

static inline void les_fetch(const void * block) {
    _mm_prefetch((const char *) block + LES_FETCH_BYTES, _MM_HINT_T0);
}

// MXFP4 on AVX2: the same with a bias of 12, which makes a weight a number of 0..24. Two blocks are taken at once, the low
// and the high nibbles of both in a register each, so inputs lie in that order beside their sums.
#define LES_MXFP4_BIAS 12

// Of bytes, since rows end anywhere. Two threads may write a pair at once, each the parts of its own block: no byte is both's.
struct les_q8_0_pair {
    char q[2][2][QK8_0/2];    // int8_t: first or second half of a block, block, value
    char sums[2][2][QK8_0/2]; // int16_t: for each two of them, the bias times their sum
    char d[2][QK8_0/2];       // float: of a block, four times
};

// Bytes of sums behind a row that is quantised for these weights; 0 where no kernel here takes them.
size_t les_dot_sums_bytes(const struct ggml_tensor * w) {
    const int64_t n = w->ne[0];
    switch (w->type) {
        case GGML_TYPE_Q3_K:
        case GGML_TYPE_Q4_K:  return n/2*sizeof(int16_t); // for each two neighbours, four times their sum
        case GGML_TYPE_MXFP4: return n % (2*QK8_0) == 0 ? n/(2*QK8_0)*sizeof(struct les_q8_0_pair) : 0;
        default:              return 0;
    }
}

static void les_q8_0_sums(const block_q8_0 * y, struct les_q8_0_pair * pairs, int64_t b0, int64_t b1) {
    for (int64_t b = b0; b < b1; b++) {
        struct les_q8_0_pair * pair = pairs + b/2;
        for (int half = 0; half < 2; half++) {
            const __m128i q = _mm_loadu_si128((const __m128i *) y[b].qs + half);
            _mm_storeu_si128((__m128i *) pair->q[half][b % 2], q);
            _mm_storeu_si128((__m128i *) pair->sums[half][b % 2], _mm_maddubs_epi16(_mm_set1_epi8(LES_MXFP4_BIAS), q));
        }
        _mm_storeu_ps((float *) pair->d[b % 2], _mm_set1_ps(_cvtsh_ss(y[b].d)));
    }
}

static void les_q8_k_sums(const block_q8_K * y, __m256i * out, int64_t b0, int64_t b1) {
    const __m256i four = _mm256_set1_epi8(4);
    for (int64_t b = b0; b < b1; b++) {
        for (int g = 0; g < LES_Q3_K_GROUPS; g++) {
            const __m256i q = _mm256_loadu_si256((const __m256i *) y[b].qs + g);
            _mm256_storeu_si256(out + b*LES_Q3_K_GROUPS + g, _mm256_maddubs_epi16(four, q));
        }
    }
}

// Makes the sums of blocks [b0, b1) of a row.
void les_dot_sums(enum ggml_type type, const void * row, void * sums, int64_t b0, int64_t b1) {
    if (type == GGML_TYPE_Q8_0) {
        les_q8_0_sums(row, sums, b0, b1);
    } else {
        les_q8_k_sums(row, sums, b0, b1);
    }
}

// The 16 scales of a block, from the 6 bits each that they are stored in: low 4 bits first, then the high 2.
static inline __m128i les_q3_k_scales(const uint8_t * packed) {
    int32_t high;
    memcpy(&high, packed + 8, sizeof(high));
    const __m128i low = _mm_loadl_epi64((const __m128i *) packed);
    const __m128i l4  = _mm_and_si128(_mm_unpacklo_epi64(low, _mm_srli_epi16(low, 4)), _mm_set1_epi8(15));
    const __m128i h2  = _mm_and_si128(_mm_srlv_epi32(_mm_set1_epi32(high), _mm_setr_epi32(0, 2, 4, 6)), _mm_set1_epi8(3));
    return _mm_sub_epi8(_mm_or_si128(l4, _mm_slli_epi16(h2, 4)), _mm_set1_epi8(32));
}

// Group g of a block: 32 weights as numbers of 0..7.
static inline __m256i les_q3_k_group(__m256i low, __m256i high, int g) {
    const __m256i l2 = _mm256_and_si256(_mm256_srli_epi16(low, 2*(g % 4)), _mm256_set1_epi8(3));
    const __m256i h1 = g < 2 ? _mm256_slli_epi16(high, 2 - g) : _mm256_srli_epi16(high, g - 2);
    return _mm256_or_si256(l2, _mm256_and_si256(h1, _mm256_set1_epi8(4)));
}

// The two scales of a group, each in the lanes of its 16 weights.
static inline __m256i les_q3_k_group_scales(__m256i scales, int g) {
    const short   pair = (short) (0x0100 + (g % 4)*0x0404);
    const __m256i half = g < 4 ? _mm256_permute2x128_si256(scales, scales, 0x00) : _mm256_permute2x128_si256(scales, scales, 0x11);
    return _mm256_shuffle_epi8(half, _mm256_setr_m128i(_mm_set1_epi16(pair), _mm_set1_epi16((short) (pair + 0x0202))));
}

static inline float les_sum_lanes(__m256 v) {
    __m128 s = _mm_add_ps(_mm256_extractf128_ps(v, 1), _mm256_castps256_ps128(v));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

// One row times n_in inputs, a constant where this is inlined.
static inline __attribute__((always_inline)) void les_q3_k_row(const block_q3_K * x, int64_t n_blocks, const char * const * in, const int n_in, float * const * out, int64_t r) {
    __m256 acc[LES_DOT_INPUTS_MAX];
    for (int i = 0; i < n_in; i++) {
        acc[i] = _mm256_setzero_ps();
    }
    for (int64_t b = 0; b < n_blocks; b++) {
        les_fetch(x + b);
        les_fetch(x[b].qs);
        const __m256i scales = _mm256_cvtepi8_epi16(les_q3_k_scales(x[b].scales));
        const __m256i high   = _mm256_loadu_si256((const __m256i *) x[b].hmask);
        __m256i sum[LES_DOT_INPUTS_MAX];
#pragma GCC unroll 8
        for (int g = 0; g < LES_Q3_K_GROUPS; g++) {
            const __m256i low = _mm256_loadu_si256((const __m256i *) x[b].qs + g/4);
            const __m256i q   = les_q3_k_group(low, high, g);
            const __m256i s   = les_q3_k_group_scales(scales, g);
            for (int i = 0; i < n_in; i++) {
                const block_q8_K * y    = (const block_q8_K *) in[i] + b;
                const __m256i *    four = (const __m256i *) (in[i] + n_blocks*sizeof(block_q8_K)) + b*LES_Q3_K_GROUPS;
                const __m256i p = _mm256_maddubs_epi16(q, _mm256_loadu_si256((const __m256i *) y->qs + g));
                const __m256i t = _mm256_madd_epi16(s, _mm256_sub_epi16(p, _mm256_loadu_si256(four + g)));
                sum[i] = g == 0 ? t : _mm256_add_epi32(sum[i], t);
            }
        }
        const float d = _cvtsh_ss(x[b].d);
        for (int i = 0; i < n_in; i++) {
            const float dy = ((const block_q8_K *) in[i])[b].d;
            acc[i] = _mm256_fmadd_ps(_mm256_set1_ps(dy*d), _mm256_cvtepi32_ps(sum[i]), acc[i]);
        }
    }
    for (int i = 0; i < n_in; i++) {
        out[i][r] = les_sum_lanes(acc[i]);
    }
}

// Q4_K on AVX2, for several inputs: what upstream does, with each row taken apart once for all of them.

// The 8 scales of a block, then its 8 minima, from the 6 bits each that they are stored in.
static inline __m256i les_q4_k_scales(const uint8_t * packed) {
    uint32_t a, b, c; // low 6 bits of four scales; of four minima; low 4 bits of the other four of both
    memcpy(&a, packed,     sizeof(a));
    memcpy(&b, packed + 4, sizeof(b));
    memcpy(&c, packed + 8, sizeof(c));
    const uint32_t a2 = (a >> 2) & 0x30303030;
    const uint32_t b2 = (b >> 2) & 0x30303030;
    const __m128i all = _mm_setr_epi32((int) (a & 0x3f3f3f3f), (int) ((c & 0x0f0f0f0f) | a2), (int) (b & 0x3f3f3f3f), (int) (((c >> 4) & 0x0f0f0f0f) | b2));
    return _mm256_cvtepu8_epi16(all);
}

static inline __attribute__((always_inline)) void les_q4_k_row(const block_q4_K * x, int64_t n_blocks, const char * const * in, const int n_in, float * const * out, int64_t r) {
    __m256 acc[LES_DOT_INPUTS_MAX];
    __m128 acc_min[LES_DOT_INPUTS_MAX];
    for (int i = 0; i < n_in; i++) {
        acc[i]     = _mm256_setzero_ps();
        acc_min[i] = _mm_setzero_ps();
    }
    for (int64_t b = 0; b < n_blocks; b++) {
        const __m256i both   = les_q4_k_scales(x[b].scales);
        const __m256i scales = _mm256_permute2x128_si256(both, both, 0x00);
        const __m128i mins   = _mm256_extracti128_si256(both, 1);
        __m256i sum[LES_DOT_INPUTS_MAX];
#pragma GCC unroll 8
        for (int g = 0; g < QK_K/32; g++) {
            const __m256i two = _mm256_loadu_si256((const __m256i *) x[b].qs + g/2);
            const __m256i q   = _mm256_and_si256(g % 2 == 0 ? two : _mm256_srli_epi16(two, 4), _mm256_set1_epi8(15));
            const __m256i s   = _mm256_shuffle_epi8(scales, _mm256_set1_epi16((short) (0x0100 + g*0x0202)));
            for (int i = 0; i < n_in; i++) {
                const block_q8_K * y = (const block_q8_K *) in[i] + b;
                const __m256i t = _mm256_madd_epi16(s, _mm256_maddubs_epi16(q, _mm256_loadu_si256((const __m256i *) y->qs + g)));
                sum[i] = g == 0 ? t : _mm256_add_epi32(sum[i], t);
            }
        }
        const float d    = _cvtsh_ss(x[b].d);
        const float dmin = _cvtsh_ss(x[b].dmin);
        for (int i = 0; i < n_in; i++) {
            const block_q8_K * y = (const block_q8_K *) in[i] + b;
            const __m128i sums = _mm_hadd_epi16(_mm_loadu_si128((const __m128i *) y->bsums), _mm_loadu_si128((const __m128i *) y->bsums + 1));
            acc_min[i] = _mm_fmadd_ps(_mm_set1_ps(-y->d*dmin), _mm_cvtepi32_ps(_mm_madd_epi16(mins, sums)), acc_min[i]);
            acc[i]     = _mm256_fmadd_ps(_mm256_set1_ps(y->d*d), _mm256_cvtepi32_ps(sum[i]), acc[i]);
        }
    }
    for (int i = 0; i < n_in; i++) {
        const __m128 m = _mm_add_ps(acc_min[i], _mm_movehl_ps(acc_min[i], acc_min[i]));
        out[i][r] = les_sum_lanes(acc[i]) + _mm_cvtss_f32(_mm_add_ss(m, _mm_movehdup_ps(m)));
    }
}

// Upstream sums blocks of even and of odd number apart, each in eight lanes, of which four are for the first half of a
// block. Here these lanes are in two other registers, one for each half.
static inline __attribute__((always_inline)) void les_mxfp4_row(const block_mxfp4 * x, int64_t n_blocks, const char * const * in, const int n_in, float * const * out, int64_t r) {
    const __m256i values = _mm256_broadcastsi128_si256(_mm_add_epi8(_mm_loadu_si128((const __m128i *) kvalues_fp4), _mm_set1_epi8(LES_MXFP4_BIAS)));
    const __m256i mask   = _mm256_set1_epi8(15);
    __m256 acc[2][LES_DOT_INPUTS_MAX];
    for (int i = 0; i < n_in; i++) {
        acc[0][i] = _mm256_setzero_ps();
        acc[1][i] = _mm256_setzero_ps();
    }
    for (int64_t p = 0; p < n_blocks/2; p++, x += 2) {
        les_fetch(x);
        const __m256i two  = _mm256_loadu2_m128i((const __m128i *) x[1].qs, (const __m128i *) x[0].qs);
        const __m256i q[2] = {
            _mm256_shuffle_epi8(values, _mm256_and_si256(two, mask)),
            _mm256_shuffle_epi8(values, _mm256_and_si256(_mm256_srli_epi16(two, 4), mask)),
        };
        const __m256 d = _mm256_blend_ps(_mm256_set1_ps(GGML_CPU_E8M0_TO_FP32_HALF(x[0].e)), _mm256_set1_ps(GGML_CPU_E8M0_TO_FP32_HALF(x[1].e)), 0xF0);
        for (int i = 0; i < n_in; i++) {
            const struct les_q8_0_pair * y = (const struct les_q8_0_pair *) (in[i] + n_blocks*sizeof(block_q8_0)) + p;
            const __m256 scale = _mm256_mul_ps(_mm256_loadu_ps((const float *) y->d), d);
#pragma GCC unroll 2
            for (int half = 0; half < 2; half++) {
                const __m256i biased = _mm256_maddubs_epi16(q[half], _mm256_loadu_si256((const __m256i *) y->q[half]));
                const __m256i sum    = _mm256_sub_epi16(biased, _mm256_loadu_si256((const __m256i *) y->sums[half]));
                acc[half][i] = _mm256_fmadd_ps(scale, _mm256_cvtepi32_ps(_mm256_madd_epi16(sum, _mm256_set1_epi16(1))), acc[half][i]);
            }
        }
    }
    for (int i = 0; i < n_in; i++) {
        const __m256 even = _mm256_permute2f128_ps(acc[0][i], acc[1][i], 0x20);
        const __m256 odd  = _mm256_permute2f128_ps(acc[0][i], acc[1][i], 0x31);
        out[i][r] = les_sum_lanes(_mm256_add_ps(even, odd));
    }
}

// Calls a kernel with a constant number of inputs.
static_assert(LES_DOT_INPUTS_MAX == 4, "a case for each number of inputs");
#define LES_DOT_ROW(kernel, block) \
    switch (n_in) { \
        case 1:  kernel((const block *) row, n_blocks, in, 1, out, r); break; \
        case 2:  kernel((const block *) row, n_blocks, in, 2, out, r); break; \
        case 3:  kernel((const block *) row, n_blocks, in, 3, out, r); break; \
        default: kernel((const block *) row, n_blocks, in, LES_DOT_INPUTS_MAX, out, r); break; \
    }

// Whether there is a kernel of our own that pays.
static bool les_dot_is_fast(const struct ggml_tensor * w, int n_in) {
    switch (w->type) {
        case GGML_TYPE_Q3_K:  return true;
        case GGML_TYPE_Q4_K:  return n_in > 1;
        case GGML_TYPE_MXFP4: return les_dot_sums_bytes(w) > 0;
        default:              return false;
    }
}

static bool les_dot_fast(const struct ggml_tensor * w, const char * rows, int64_t n, const char * const * in, int n_in, float * const * out) {
    if (!les_dot_is_fast(w, n_in)) {
        return false;
    }
    const int64_t n_blocks = w->ne[0]/ggml_blck_size(w->type);
    for (int64_t r = 0; r < n; r++) {
        const char * row = rows + r*w->nb[1];
        if (w->type == GGML_TYPE_Q3_K) {
            LES_DOT_ROW(les_q3_k_row, block_q3_K)
        } else if (w->type == GGML_TYPE_Q4_K) {
            LES_DOT_ROW(les_q4_k_row, block_q4_K)
        } else {
            LES_DOT_ROW(les_mxfp4_row, block_mxfp4)
        }
    }
    return true;
}

#else

size_t les_dot_sums_bytes(const struct ggml_tensor * w) {
    GGML_UNUSED(w);
    return 0;
}

void les_dot_sums(enum ggml_type type, const void * row, void * sums, int64_t b0, int64_t b1) {
    GGML_UNUSED(type);
    GGML_UNUSED(row);
    GGML_UNUSED(sums);
    GGML_UNUSED(b0);
    GGML_UNUSED(b1);
}

static bool les_dot_fast(const struct ggml_tensor * w, const char * rows, int64_t n, const char * const * in, int n_in, float * const * out) {
    GGML_UNUSED(w);
    GGML_UNUSED(rows);
    GGML_UNUSED(n);
    GGML_UNUSED(in);
    GGML_UNUSED(n_in);
    GGML_UNUSED(out);
    return false;
}

#endif

// out[i][0..n) = n rows of w, whose bytes are at rows, times input i, for up to LES_DOT_INPUTS_MAX inputs. An input is a row
// of the type that w's vec_dot wants, followed by its sums if w has any.
void les_dot_rows(const struct ggml_tensor * w, const char * rows, int64_t n, const char * const * in, int n_in, float * const * out) {
    if (les_dot_fast(w, rows, n, in, n_in, out)) {
        return;
    }
    ggml_vec_dot_t const vec_dot = ggml_get_type_traits_cpu(w->type)->vec_dot;
    for (int i = 0; i < n_in; i++) {
        for (int64_t r = 0; r < n; r++) {
            vec_dot((int) w->ne[0], out[i] + r, 0, rows + r*w->nb[1], 0, in[i], 0, 1);
        }
    }
}
