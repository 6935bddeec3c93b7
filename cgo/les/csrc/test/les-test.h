// What the tests of the C side share: assertions, chance, a model without llama.cpp, a scheduler, graphs.

#pragma once

#include "les.h"

#include "ggml.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _WIN32
#    include "les-test-windows.h"
#endif

// Always on, whatever the build: a test that does not check is none.
#define CHECK(cond) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #cond); \
            abort(); \
        } \
    } while (0)

#define CHECKF(cond, ...) \
    do { \
        if (!(cond)) { \
            fprintf(stderr, "%s:%d: CHECK failed: %s: ", __FILE__, __LINE__, #cond); \
            fprintf(stderr, __VA_ARGS__); \
            fputc('\n', stderr); \
            abort(); \
        } \
    } while (0)

// Names the test on stdout, so that the last line tells where a run was cut short.
#define RUN(test) \
    do { \
        printf("%s\n", #test); \
        fflush(stdout); \
        test(); \
    } while (0)

// A hang ends the program after this many seconds.
#define WATCHDOG_SECONDS 600

static inline uint32_t chance(uint64_t * state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (uint32_t) (*state >> 16);
}

static inline float chance_float(uint64_t * state) { // in [-1, 1)
    return (float) (chance(state) & 0xffffff)/(float) 0x800000 - 1.0f;
}

// model

#define FAKE_LAYERS_MAX 4
#define FAKE_EXPERTS_MAX 64
#define FAKE_NONE GGML_TYPE_COUNT // a projection that a layer does not have

enum fake_role { FAKE_GATE, FAKE_UP, FAKE_DOWN, FAKE_ROLES };

struct fake_layer {
    int32_t        block;
    int32_t        n_expert;
    int32_t        n_embd;
    int32_t        n_ff;
    enum ggml_type type[FAKE_ROLES]; // gate may be missing
    bool           merged;           // "gate_up" in place of gate and up, of up's type
    bool           contiguous;       // an expert is one extent of its file
    bool           router;           // has ffn_gate_inp.weight
    bool           router_bias;
    bool           router_select;
};

// The same weights twice: in plain memory for the reference, and in two "files" for LES.
struct fake_model {
    int32_t           n_layers;
    struct fake_layer layers[FAKE_LAYERS_MAX];
    struct les_model * les;

    struct ggml_tensor * plain [FAKE_LAYERS_MAX][FAKE_ROLES]; // up holds gate and up where they are merged
    struct ggml_tensor * stream[FAKE_LAYERS_MAX][FAKE_ROLES];
    struct ggml_tensor * bias  [FAKE_LAYERS_MAX][FAKE_ROLES];
    struct ggml_tensor * router       [FAKE_LAYERS_MAX];
    struct ggml_tensor * router_bias  [FAKE_LAYERS_MAX];
    struct ggml_tensor * router_select[FAKE_LAYERS_MAX];

    struct ggml_context * ctx_plain;
    struct ggml_context * ctx_stream;
    ggml_backend_buffer_t buf_plain;
    ggml_backend_buffer_t buf_stream;
    uint8_t *             file[2];
    size_t                file_bytes[2];
};

// Builds, loads and seals. Tensors of odd layers lie in the second file; offsets are multiples of 8 only, but for
// contiguous layers.
void fake_model_init(struct fake_model * m, const struct fake_layer * layers, int32_t n_layers, uint64_t seed);
void fake_model_free(struct fake_model * m); // drops the model's reference, then the buffer's

void fill_floats(float * data, size_t n, float scale, uint64_t * state);

// scheduler

#define FAKE_GUESS_CALLS_MAX 64

struct fake_guess {
    int32_t layer;
    int32_t n;
    int32_t ids[FAKE_EXPERTS_MAX];
};

struct fake_expert {
    int32_t  pins;
    int32_t  slot;    // -1 while it has none
    bool     queued;  // waits for its bytes
    bool     failed;
    uint64_t routed;
    uint64_t released;
};

// Fills slots on a thread of its own, in random order and after random delays. The lock guards all that is below it.
struct fake_sched {
    struct fake_model * model;
    int32_t  n_slots;
    int32_t  delay_us;   // the longest delay ahead of each span
    int32_t  fail_layer; // one expert whose reads fail; -1 for none
    int32_t  fail_id;
    uint32_t fail_word; // what is published for it
    int32_t  status_routed;    // what the callbacks return when it is negative
    int32_t  status_predicted;
    int32_t  status_released;
    int32_t  n_graphs;   // how many graphs run at a time, 1 unless set
    bool     stuck;      // fills nothing
    int32_t  guess_us;   // how long the predicted callback takes
    _Atomic int guess_begun;
    _Atomic int guess_ended;
    pthread_t       thread;
    pthread_mutex_t lock;
    pthread_cond_t  work;
    bool               stop;
    uint64_t           chance;
    struct fake_expert experts[FAKE_LAYERS_MAX][FAKE_EXPERTS_MAX];
    int32_t *          owner; // per slot: layer*FAKE_EXPERTS_MAX + id, or -1
    int32_t            n_guesses;
    struct fake_guess  guesses[FAKE_GUESS_CALLS_MAX];
    uint64_t           n_calls; // of any callback
    uint64_t           n_fills;
};

struct les_callbacks fake_sched_callbacks(struct fake_sched * s);

// Opens the model with a scheduler of its own. The fields above the lock may be set before and between graphs.
void fake_sched_init(struct fake_sched * s, struct fake_model * m, int32_t n_slots, int32_t delay_us);
void fake_sched_free(struct fake_sched * s); // closes the model and joins the thread

// Every expert has been released as often as it was routed to.
void fake_sched_check_idle(struct fake_sched * s);

uint64_t fake_sched_calls(struct fake_sched * s);

// graphs

// A layer with ACT_SILU_MUL is not fused. A layer without a gate has the last three, whatever is asked for.
enum chain_act { ACT_SWIGLU, ACT_GEGLU, ACT_REGLU, ACT_SWIGLU_OAI, ACT_SWIGLU_CLAMP, ACT_SILU_MUL, ACT_SILU, ACT_GELU, ACT_RELU_SQR };

struct chain {
    enum chain_act act;
    bool    bias;
    int32_t n_tokens;
    int32_t n_used;
    int32_t n_threads;
    int32_t gating;
};

// One graph over all layers: each layer's experts get the first expert's output of the layer before.
struct moe_graph {
    struct ggml_context *  ctx;
    struct ggml_cgraph *   graph;
    ggml_backend_t         backend;
    ggml_backend_buffer_t  buffer;
    struct ggml_tensor *   x;
    struct ggml_tensor *   ids[FAKE_LAYERS_MAX];
    struct ggml_tensor *   out[FAKE_LAYERS_MAX]; // what les_hook_graph_moe returned, or upstream's last product
};

void moe_graph_init(struct moe_graph * g, const struct fake_model * m, const struct chain * c, bool stream);
void moe_graph_free(struct moe_graph * g);

// Same input for the same seed: x at random, and distinct random experts for each token.
void moe_graph_input(struct moe_graph * g, const struct fake_model * m, uint64_t seed);
void moe_graph_run(struct moe_graph * g);

// Bit for bit, all layers.
void moe_graph_check_equal(const struct moe_graph * a, const struct moe_graph * b, const char * what);
