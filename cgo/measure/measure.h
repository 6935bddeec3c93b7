// Upstream's own programs for importance data and perplexity, as functions that run on a context which is there already.
// One runs at a time in a process.
#ifndef LES_MEASURE_H
#define LES_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include "llama.h"

#ifdef __cplusplus
extern "C" {
#endif

// Where importance data say what the model is called that they were collected from; missing where it has no name.
#define LES_MEASURE_MODEL_KEY "les.imatrix.model"

enum les_measure_what {
    LES_MEASURE_IMATRIX,    // writes importance data to file
    LES_MEASURE_PERPLEXITY, // writes the distributions to file, unless that is empty
    LES_MEASURE_DIVERGENCE, // compares with the distributions in file
};

struct les_measure_request {
    enum les_measure_what  what;
    struct llama_context * lctx;
    const char *           text;
    const char *           text_name; // noted in importance data
    const char *           file;
    int32_t                n_ctx;     // tokens of a chunk
    int32_t                n_batch;   // tokens of a batch, chunks side by side
    int32_t                n_chunks;  // at most; -1 for all
};

// Returns what the program said, line by line; the caller frees it. ok is false when it failed or was stopped.
char * les_measure_run(const struct les_measure_request * request, bool * ok);

// May be called from another thread. A run that is stopped ends before its next batch.
void les_measure_stop(void);
void les_measure_progress(int64_t * done, int64_t * total);

// What the context of a run for importance data must have as cb_eval.
bool les_measure_observe(struct ggml_tensor * tensor, bool ask, void * user_data);

#ifdef __cplusplus
}
#endif

#endif
