#include "bridge.h"
#include "_cgo_export.h"

static int32_t bridge_routed(void * user, int32_t layer, const int32_t * ids, int32_t n, uint32_t spans, int32_t n_tokens) {
    return lesGoRouted((uintptr_t) user, layer, (int32_t *) ids, n, spans, n_tokens);
}

static int32_t bridge_predicted(void * user, int32_t layer, const int32_t * ids, int32_t n) {
    return lesGoPredicted((uintptr_t) user, layer, (int32_t *) ids, n);
}

static int32_t bridge_released(void * user, int32_t layer, const int32_t * ids, int32_t n) {
    return lesGoReleased((uintptr_t) user, layer, (int32_t *) ids, n);
}

int32_t les_bridge_open(struct les_model * model, int32_t n_slots, int32_t n_slots_max, uintptr_t handle) {
    const struct les_callbacks callbacks = {
        .user      = (void *) handle,
        .routed    = bridge_routed,
        .predicted = bridge_predicted,
        .released  = bridge_released,
    };
    return les_model_open(model, n_slots, n_slots_max, &callbacks);
}
