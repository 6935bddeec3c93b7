#include "bridge.h"
#include "_cgo_export.h"

static void bridge_begin(void * user, int32_t key, int32_t n_max, bool sequential) {
    (void) user;
    lesGoVerifyBegin(key, n_max, sequential);
}

static int32_t bridge_ask(void * user, int32_t key, int32_t room) {
    (void) user;
    return lesGoVerifyAsk(key, room);
}

static int32_t bridge_choose(void * user, int32_t key, int32_t n_drafted, const float * confidences, int32_t n_confidences) {
    (void) user;
    return lesGoVerifyChoose(key, n_drafted, (float *) confidences, n_confidences);
}

static void bridge_observe(void * user, int32_t key, const struct les_verify_step * step) {
    (void) user;
    lesGoVerifyObserve(key, (struct les_verify_step *) step);
}

static void bridge_reset(void * user, int32_t key) {
    (void) user;
    lesGoVerifyReset(key);
}

void les_bridge_verify(bool on) {
    const struct les_verify_calls calls = {
        .begin   = bridge_begin,
        .ask     = bridge_ask,
        .choose  = bridge_choose,
        .observe = bridge_observe,
        .reset   = bridge_reset,
    };
    les_verify_register(on ? &calls : NULL);
}
