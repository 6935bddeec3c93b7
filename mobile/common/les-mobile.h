// What an app on a phone does with LES, as one small object: open a model within a budget, answer a prompt piece by piece,
// give memory back when the system asks for it, close. The wrappers for Kotlin and Swift are made of it; it shows at the same
// time which calls of llama.h and lesext.h an app must make, and in which order.
//
// One thread generates at a time. Ask, cancel and pressure may come from any thread meanwhile.

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct les_mobile;

struct les_mobile_params {
    const char * model_path;   // a file that can be read at any place: not an asset inside a package
    const char * library_path; // folder of the processor kernels where they are libraries of their own (Android), else NULL
    uint64_t     budget_bytes; // for the whole process; 0 leaves the choice to LES
    int32_t      n_threads;    // that compute, 0 for llama.cpp's own choice of 4
    int32_t      n_ctx;        // tokens of a conversation, 0 for 2048
};

struct les_mobile_question {
    int64_t      asked; // the number from les_mobile_ask
    const char * prompt;
    int32_t      n_max; // tokens of the answer at most
};

// Called for each piece of text, in UTF-8, whole characters only. False ends the answer.
typedef bool (*les_mobile_piece)(void * user, const char * text);

// NULL on failure, with the reason in error.
struct les_mobile * les_mobile_open (const struct les_mobile_params * params, char * error, size_t n_error);
void                les_mobile_close(struct les_mobile * m);

// Numbers a question when it is put, which may be long before its turn comes: a cancel between the two ends it too.
int64_t les_mobile_ask(struct les_mobile * m);

// Answers a question as the model's chat template has it. Returns the number of tokens, or -1 with the reason in error: a read
// that failed, as while a phone is locked, leaves the object usable.
int32_t les_mobile_generate(struct les_mobile * m, const struct les_mobile_question * question, les_mobile_piece piece, void * user);

// The reason of the last failure of this object. Lives until its next call.
const char * les_mobile_error(const struct les_mobile * m);

// Ends the answers to all questions that were put so far: the one that is being generated after its present step, those whose
// turn has not come before their first token. Questions put later are answered.
void les_mobile_cancel(struct les_mobile * m);

// How short memory is: 0 is as planned, 1 the system asks for less, 2 it is about to end processes. Returns 0, or -1.
int32_t les_mobile_pressure(struct les_mobile * m, int32_t level);

#ifdef __cplusplus
}
#endif
