// What quantising needs of llama.cpp; see quantize.go and rows.go.
#ifndef LES_LLAMA_QUANTIZE_H
#define LES_LLAMA_QUANTIZE_H

#include <stdbool.h>
#include <stdint.h>
#include "llama.h"

#ifdef __cplusplus
extern "C" {
#endif

// What upstream's quantiser would make of a file, as the text it logs in a dry run; the caller frees it. Overrides are lines of a
// type's number, a blank and the pattern of a name. ok says whether it agreed.
char * les_llama_quantize_plan(const char * path, enum llama_ftype ftype, bool imatrix, const char * overrides, bool * ok);

// Rows of one matrix on their way from one type to another.
struct les_llama_rows {
    const void *  src;
    void *        dst;
    float *       floats;  // room for the rows as numbers, twice for les_llama_rows_lost
    const float * weights; // importance of each column, NULL for even ones
    int64_t       n_rows;
    int64_t       n_columns;
    int32_t       from;
    int32_t       to;
};

enum les_llama_rows_result { LES_ROWS_OK, LES_ROWS_BAD_SOURCE, LES_ROWS_BAD_RESULT };

enum les_llama_rows_result les_llama_rows_convert(const struct les_llama_rows * rows);

// Says whether rows that are copied are sound: numbers, and blocks with scales that are.
bool les_llama_rows_valid(int32_t type, const void * rows, size_t n_bytes);

// What les_llama_rows_convert lost: the squares of the differences and of the numbers themselves, weighted and summed up.
void les_llama_rows_lost(const struct les_llama_rows * rows, double * lost, double * all);

#ifdef __cplusplus
}
#endif

#endif
