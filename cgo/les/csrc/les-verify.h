// How many of the tokens that were drafted a step of the target verifies: the joint between llama.cpp's drafters, of whatever
// type, and who decides. common/speculative.cpp makes the calls at the end; without a registration they change nothing.
//
// A draft belongs to a sequence of a drafter. For each sequence of its own the calls come in order and do not overlap:
//
//   begin -> ask -> (draft) -> choose -> (step) -> observe -> ask ...
//
// begin comes again when the sequence is another request, without observe for the step that it cuts short.

#pragma once

#include "les.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LES_VERIFY_MAX_SEQS   256 // sequences of all drafters that can be decided for; others are left alone
#define LES_VERIFY_MAX_TOKENS  64 // of a draft

// What became of a step.
struct les_verify_step {
    int32_t  n_drafted;
    int32_t  n_verified;
    int32_t  n_accepted;
    uint64_t draft_ns; // of the drafter, for all sequences that it drafted for at once
    uint64_t step_ns;  // from the draft to the next one: the target's step, and what the program does beside
    const int32_t * draft; // the n_drafted tokens
    int32_t  token;        // the target's own behind those that were accepted
};

// A draft that is to be made.
struct les_verify_draft {
    int32_t pos;   // of its first token
    int32_t token; // before it, the last one that the target chose
    int32_t n_max; // most tokens of any draft
    bool    sequential; // longer ones take longer
};

struct les_verify_calls {
    void * user;

    // A sequence starts a request.
    // key is the same for a sequence as long as the drafter lives, from 0 to LES_VERIFY_MAX_SEQS - 1.
    void (*begin)(void * user, int32_t key, int32_t n_max, bool sequential);

    // How many tokens to draft, at most room; 0 for none.
    int32_t (*ask)(void * user, int32_t key, int32_t room);

    // How many of n_drafted tokens are verified; n_confidences of them have one.
    int32_t (*choose)(void * user, int32_t key, int32_t n_drafted, const float * confidences, int32_t n_confidences);

    // Not called for a step that a new request or another drafter cut short.
    void (*observe)(void * user, int32_t key, const struct les_verify_step * step);

    // Forget what was learnt of this sequence: another drafter has its key now.
    void (*reset)(void * user, int32_t key);
};

// Who decides from now on; NULL for nobody. Not to be called while a program drafts. The table is copied.
LES_API void les_verify_register(const struct les_verify_calls * calls);

// calls of llama.cpp

// Before a draft: false turns it off. Its number of tokens, negative for n_max, may become less. Where nothing came of a draft
// that was made shorter, as the drafter may be told to throw such away, the next one is as long as it may be.
LES_API bool les_verify_ask(const void * drafter, int32_t seq, struct les_verify_draft draft, int32_t * n_tokens);

// The drafter is this sure of the next token of the draft; n is where it says so.
LES_API void les_verify_confidence(int32_t seq, const float * confidences, size_t n);

// After a draft of n tokens: how many of them to verify.
LES_API size_t les_verify_choose(const void * drafter, int32_t seq, const int32_t * tokens, size_t n);

// So many of them were accepted.
LES_API void les_verify_accepted(const void * drafter, int32_t seq, int32_t n);

#ifdef __cplusplus
}
#endif
