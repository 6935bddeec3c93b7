// How much of a draft is verified: the order of calls, what a step is told to have been, and that nobody decides unasked.

#include "les-test.h"
#include "les-verify.h"

// One who decides, and writes down what is asked.
static struct decider {
    int32_t n_begin, n_ask, n_choose, n_observe, n_reset;
    int32_t key, n_max, room, n_confidences;
    bool    sequential;
    int32_t ask, choose; // answers
    float   confidence;
    struct les_verify_step step;
    int32_t drafted[8];
} g;

static void decide_begin(void * user, int32_t key, int32_t n_max, bool sequential) {
    CHECK(user == &g);
    g.n_begin++;
    g.key        = key;
    g.n_max      = n_max;
    g.sequential = sequential;
}

static int32_t decide_ask(void * user, int32_t key, int32_t room) {
    CHECK(user == &g && key == g.key);
    g.n_ask++;
    g.room = room;
    return g.ask;
}

static int32_t decide_choose(void * user, int32_t key, int32_t n_drafted, const float * confidences, int32_t n_confidences) {
    CHECK(user == &g && key == g.key && n_drafted >= 0);
    g.n_choose++;
    g.n_confidences = n_confidences;
    g.confidence    = n_confidences > 0 ? confidences[n_confidences - 1] : -1;
    return g.choose;
}

static void decide_observe(void * user, int32_t key, const struct les_verify_step * step) {
    CHECK(user == &g && key == g.key);
    g.n_observe++;
    g.step = *step;
    memcpy(g.drafted, step->draft, (size_t) step->n_drafted * sizeof(*step->draft));
}

static void decide_reset(void * user, int32_t key) {
    CHECK(user == &g);
    g.n_reset++;
    g.key = key;
}

static void decide(void) {
    const struct les_verify_calls calls = { &g, decide_begin, decide_ask, decide_choose, decide_observe, decide_reset };
    memset(&g, 0, sizeof(g));
    g.ask = g.choose = 4;
    les_verify_register(&calls);
}

static const int drafters[LES_VERIFY_MAX_SEQS + 1];

// Asks, and returns how many tokens may be drafted; 0 when it was turned off.
static int32_t ask(const void * drafter, int32_t seq, int32_t pos, int32_t room) {
    const struct les_verify_draft draft = { .pos = pos, .token = 100 + pos, .n_max = 8, .sequential = true };
    return les_verify_ask(drafter, seq, draft, &room) ? room : 0;
}

static const int32_t tokens[] = { 7, 8, 9, 10, 11, 12, 13, 14 };

static void test_nobody_decides(void) {
    les_verify_register(NULL);
    CHECK(ask(drafters, 0, 10, -1) == -1);
    les_verify_confidence(0, (const float[]) { 0.5f }, 0);
    CHECK(les_verify_choose(drafters, 0, tokens, 7) == 7);
    les_verify_accepted(drafters, 0, 7);
}

static void test_a_step_is_told(void) {
    decide();
    CHECK(ask(drafters, 0, 10, -1) == 4);
    CHECK(g.n_reset == 1 && g.n_begin == 1 && g.n_max == 8 && g.sequential && g.room == 8);
    const float confidences[] = { 0.9f, 2.0f, 0.8f, 0.7f };
    les_verify_confidence(0, confidences, 0);
    les_verify_confidence(0, confidences, 1); // is none
    les_verify_confidence(0, confidences, 2);
    g.choose = 2;
    CHECK(les_verify_choose(drafters, 0, tokens, 3) == 2);
    CHECK(g.n_confidences == 0); // two for three tokens belong to nobody knows which
    les_verify_accepted(drafters, 0, 1);
    usleep(2000);
    CHECK(ask(drafters, 0, 12, 3) == 3);
    CHECK(g.n_observe == 1 && g.n_begin == 1);
    CHECK(g.step.n_drafted == 3 && g.step.n_verified == 2 && g.step.n_accepted == 1);
    CHECK(g.drafted[0] == 7 && g.drafted[2] == 9 && g.step.token == 112);
    CHECK(g.step.step_ns >= 2000000 && g.step.draft_ns < g.step.step_ns);
    for (int i = 0; i < 4; i++) {
        les_verify_confidence(0, confidences, i == 1 ? 3 : i);
    }
    les_verify_choose(drafters, 0, tokens, 3);
    CHECK(g.n_confidences == 3 && g.confidence == 0.8f);
}

static void test_no_draft_is_a_step_too(void) {
    decide();
    ask(drafters, 0, 10, -1);
    les_verify_choose(drafters, 0, tokens, 0); // the drafter had nothing
    g.ask = 0;
    CHECK(ask(drafters, 0, 11, -1) == 0); // the decider wants nothing
    CHECK(g.n_observe == 1 && g.step.n_drafted == 0 && g.step.n_accepted == 0);
    CHECK(ask(drafters, 0, 12, -1) == 0);
    CHECK(g.n_observe == 2 && g.step.draft_ns == 0 && g.n_choose == 1);
}

static void test_short_drafts_that_vanish_are_not_asked_for_again(void) {
    decide();
    g.ask = g.choose = 2;
    CHECK(ask(drafters, 0, 10, -1) == 2);
    les_verify_choose(drafters, 0, tokens, 0); // thrown away: shorter than its least
    CHECK(ask(drafters, 0, 11, -1) == -1); // as many as there may be
    CHECK(les_verify_choose(drafters, 0, tokens, 8) == 2);
    CHECK(ask(drafters, 0, 14, -1) == -1);
    les_verify_choose(drafters, 0, tokens, 0); // not for its length
    CHECK(ask(drafters, 0, 15, -1) == 2);
}

static void test_another_request_begins(void) {
    decide();
    ask(drafters, 0, 10, -1);
    les_verify_choose(drafters, 0, tokens, 4);
    les_verify_accepted(drafters, 0, 4);
    ask(drafters, 0, 3, -1); // not where the step before would go on
    CHECK(g.n_begin == 2 && g.n_observe == 0);
    les_verify_choose(drafters, 0, tokens, 4);
    ask(drafters, 0, 4, -1);
    CHECK(g.n_begin == 2 && g.n_observe == 1 && g.step.n_accepted == 0);
}

static void end_in_begin(void * user, int32_t key, int32_t n_max, bool sequential) {
    decide_begin(user, key, n_max, sequential);
    les_verify_register(NULL); // as another thread may at any moment
}

static void test_a_registration_ends_in_mid_draft(void) {
    const struct les_verify_calls calls = { &g, end_in_begin, decide_ask, decide_choose, decide_observe, decide_reset };
    decide();
    les_verify_register(&calls);
    CHECK(ask(drafters, 0, 10, -1) == 4);
    CHECK(les_verify_choose(drafters, 0, tokens, 3) == 3 && g.n_choose == 0);
}

static void test_a_sequence_without_a_number_has_no_confidences(void) {
    decide();
    CHECK(ask(drafters, -1, 10, -1) == 4);
    les_verify_confidence(-1, (const float[]) { 0.5f }, 0);
    CHECK(les_verify_choose(drafters, -1, tokens, 4) == 4 && g.n_confidences == 0);
}

static void test_answers_out_of_range_are_cut(void) {
    decide();
    g.ask = 100;
    CHECK(ask(drafters, 0, 10, 5) == 5);
    g.choose = 100;
    CHECK(les_verify_choose(drafters, 0, tokens, 5) == 5);
    g.choose = -3;
    CHECK(les_verify_choose(drafters, 0, tokens, 5) == 0);
    CHECK(les_verify_choose(drafters, 1, tokens, 5) == 5); // nobody asked for this sequence
    const int32_t n_ask = g.n_ask;
    int32_t room = 3;
    CHECK(les_verify_ask(drafters, 0, (struct les_verify_draft) { .pos = 11, .n_max = LES_VERIFY_MAX_TOKENS + 1 }, &room)); // more than can be decided for
    CHECK(g.n_ask == n_ask && room == 3);
}

static void test_places_of_old_sequences_are_taken(void) {
    decide();
    for (int i = 0; i < LES_VERIFY_MAX_SEQS; i++) {
        ask(drafters + i, i, 10, -1);
    }
    CHECK(g.n_reset == LES_VERIFY_MAX_SEQS);
    g.key = 1;
    ask(drafters + 1, 1, 11, -1); // used again, so that the first is the oldest
    ask(drafters + LES_VERIFY_MAX_SEQS, 0, 10, -1);
    CHECK(g.n_reset == LES_VERIFY_MAX_SEQS + 1 && g.key == 0);
    CHECK(les_verify_choose(drafters, 0, tokens, 5) == 5); // gone
}

int main(void) {
    alarm(WATCHDOG_SECONDS);
    RUN(test_nobody_decides);
    RUN(test_a_step_is_told);
    RUN(test_no_draft_is_a_step_too);
    RUN(test_short_drafts_that_vanish_are_not_asked_for_again);
    RUN(test_another_request_begins);
    RUN(test_a_registration_ends_in_mid_draft);
    RUN(test_a_sequence_without_a_number_has_no_confidences);
    RUN(test_answers_out_of_range_are_cut);
    RUN(test_places_of_old_sequences_are_taken);
    return 0;
}
