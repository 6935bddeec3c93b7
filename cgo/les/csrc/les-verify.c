#include "les-verify.h"

#include "les-impl.h"

#include <stdatomic.h>
#include <string.h>

// One sequence of one drafter. All fields but the first two belong to the thread that drafts for it.
struct sequence {
    const void * drafter; // NULL for a free place
    int32_t      seq;
    struct les_verify_draft last;
    int32_t      tokens[LES_VERIFY_MAX_TOKENS]; // of the last draft
    bool         pending; // a step runs
    bool         cut;     // fewer tokens were asked for than there was room for
    bool         whole;   // nothing came of the last cut: a drafter may throw short drafts away, so it is not cut
    uint64_t     asked_ns, chosen_ns;
    struct les_verify_step step;
};

// A registration may end while another thread drafts, so its functions stay callable: only g_registered tells that it has ended.
static struct les_verify_calls g_calls;
static atomic_bool             g_registered; // stored by les_verify_register, loaded by the drafting threads
static struct sequence         g_sequences[LES_VERIFY_MAX_SEQS];
static uint64_t                g_uses[LES_VERIFY_MAX_SEQS]; // when a place was used last
static uint64_t                g_clock;
static _Atomic int32_t         g_lock; // guards which place is whose

// What drafters say while a draft is made, by sequence. Drafters of several threads would mix theirs: a wrong width, no more.
static struct confidences {
    int32_t n;
    float   values[LES_VERIFY_MAX_TOKENS];
} g_confidences[LES_VERIFY_MAX_SEQS];

static bool registered(void) { return atomic_load_explicit(&g_registered, memory_order_acquire); }

// Where the confidences of a sequence are kept; NULL for one that has no room.
static struct confidences * confidences_of(int32_t seq) {
    return seq >= 0 && seq < LES_VERIFY_MAX_SEQS ? &g_confidences[seq] : NULL;
}

static int32_t key_of(const struct sequence * s) { return (int32_t) (s - g_sequences); }

// The place of a sequence, or NULL where it has none.
static struct sequence * find(const void * drafter, int32_t seq) {
    struct sequence * found = NULL;
    les_lock(&g_lock);
    for (int32_t i = 0; i < LES_VERIFY_MAX_SEQS && found == NULL; i++) {
        if (g_sequences[i].drafter == drafter && g_sequences[i].seq == seq) {
            found = &g_sequences[i];
            g_uses[i] = ++g_clock;
        }
    }
    les_unlock(&g_lock);
    return found;
}

// Takes a free place, or the one that was not used for longest: drafters do not tell when they go.
static struct sequence * take(const void * drafter, int32_t seq) {
    les_lock(&g_lock);
    int32_t at = 0;
    for (int32_t i = 1; i < LES_VERIFY_MAX_SEQS; i++) {
        at = g_uses[i] < g_uses[at] ? i : at;
    }
    g_uses[at]      = ++g_clock;
    g_sequences[at] = (struct sequence) { .drafter = drafter, .seq = seq, .last.pos = -1 };
    les_unlock(&g_lock);
    return &g_sequences[at];
}

void les_verify_register(const struct les_verify_calls * calls) {
    les_lock(&g_lock);
    if (calls) {
        g_calls = *calls;
    }
    memset(g_sequences, 0, sizeof(g_sequences));
    memset(g_uses, 0, sizeof(g_uses));
    les_unlock(&g_lock);
    atomic_store_explicit(&g_registered, calls != NULL, memory_order_release);
}

// Tells what became of the step before, or begins a request where this draft does not go on from there.
static void settle(struct sequence * s, const struct les_verify_draft * draft) {
    const bool follows = s->pending && draft->pos == s->last.pos + 1 + s->step.n_accepted;
    s->pending = false;
    if (!follows || draft->n_max != s->last.n_max) {
        g_calls.begin(g_calls.user, key_of(s), draft->n_max, draft->sequential);
        return;
    }
    s->step.step_ns = s->asked_ns - s->chosen_ns;
    s->step.draft   = s->tokens;
    s->step.token   = draft->token;
    g_calls.observe(g_calls.user, key_of(s), &s->step);
}

bool les_verify_ask(const void * drafter, int32_t seq, struct les_verify_draft draft, int32_t * n_tokens) {
    if (!registered() || draft.n_max < 1 || draft.n_max > LES_VERIFY_MAX_TOKENS) {
        return true;
    }
    struct sequence * s = find(drafter, seq);
    if (s == NULL) {
        s = take(drafter, seq);
        g_calls.reset(g_calls.user, key_of(s));
    }
    s->asked_ns = les_os_now_ns();
    settle(s, &draft);
    s->last = draft;
    s->step = (struct les_verify_step) { 0 };
    const int32_t room = *n_tokens < 0 || *n_tokens > draft.n_max ? draft.n_max : *n_tokens;
    const int32_t n    = g_calls.ask(g_calls.user, key_of(s), room);
    s->cut = n > 0 && n < room && !s->whole;
    if (s->cut) {
        *n_tokens = n;
    }
    struct confidences * c = confidences_of(seq);
    if (c != NULL) {
        c->n = 0;
    }
    // Where nothing is drafted there is no choice either.
    s->chosen_ns = les_os_now_ns();
    s->pending   = true;
    return n > 0;
}

void les_verify_confidence(int32_t seq, const float * confidences, size_t n) {
    struct confidences * c = confidences_of(seq);
    if (!registered() || confidences == NULL || c == NULL) {
        return;
    }
    const float value = confidences[n];
    if (c->n < LES_VERIFY_MAX_TOKENS && value >= 0 && value <= 1) {
        c->values[c->n++] = value;
    }
}

size_t les_verify_choose(const void * drafter, int32_t seq, const int32_t * tokens, size_t n) {
    struct sequence * s = registered() ? find(drafter, seq) : NULL;
    if (s == NULL || !s->pending || n > LES_VERIFY_MAX_TOKENS) {
        return n;
    }
    static const struct confidences none;
    const struct confidences * own = confidences_of(seq);
    const struct confidences * c   = own ? own : &none;
    int32_t chosen = g_calls.choose(g_calls.user, key_of(s), (int32_t) n, c->values, c->n < (int32_t) n ? 0 : (int32_t) n);
    chosen = chosen < 0 ? 0 : chosen > (int32_t) n ? (int32_t) n : chosen;
    s->whole           = n > 0 ? s->whole : s->cut;
    s->chosen_ns       = les_os_now_ns();
    s->step.draft_ns   = s->chosen_ns - s->asked_ns;
    s->step.n_drafted  = (int32_t) n;
    if (n > 0) {
        memcpy(s->tokens, tokens, n * sizeof(*tokens));
    }
    s->step.n_verified = chosen;
    return (size_t) chosen;
}

void les_verify_accepted(const void * drafter, int32_t seq, int32_t n) {
    struct sequence * s = registered() ? find(drafter, seq) : NULL;
    if (s != NULL && s->pending) {
        s->step.n_accepted = n < s->step.n_verified ? n : s->step.n_verified;
    }
}
