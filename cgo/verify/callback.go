package verify

/*
#include "les-verify.h"
*/
import "C"

import (
	"unsafe"

	"github.com/les-project/les/lesext/dspark"
)

// The functions below run on the thread that drafts. A panic of a controller
// becomes the answer of a program without one, and the controller is dropped.

//export lesGoVerifyBegin
func lesGoVerifyBegin(key, most C.int32_t, sequential C.bool) {
	defer forget(key)
	control.Lock()
	defer control.Unlock()
	c := control.sequences[key]
	config := dspark.Config{Max: int(most), Sequential: bool(sequential), Experts: control.experts.All, Used: control.experts.Used}
	if c != nil && c.Config() == config {
		c.Begin()
		return
	}
	dropLocked(key)
	control.sequences[key] = dspark.New(config)
}

//export lesGoVerifyAsk
func lesGoVerifyAsk(key, room C.int32_t) (n C.int32_t) {
	n = room
	defer forget(key)
	control.Lock()
	defer control.Unlock()
	if c := control.sequences[key]; c != nil {
		n = C.int32_t(c.Next(int(room)))
	}
	return n
}

//export lesGoVerifyChoose
func lesGoVerifyChoose(key, drafted C.int32_t, confidences *C.float, count C.int32_t) (n C.int32_t) {
	n = drafted
	defer forget(key)
	control.Lock()
	defer control.Unlock()
	if c := control.sequences[key]; c != nil {
		n = C.int32_t(c.Verify(unsafe.Slice((*float32)(unsafe.Pointer(confidences)), int(count)), int(drafted)))
	}
	return n
}

//export lesGoVerifyObserve
func lesGoVerifyObserve(key C.int32_t, step *C.struct_les_verify_step) {
	defer forget(key)
	control.Lock()
	defer control.Unlock()
	if c := control.sequences[key]; c != nil {
		c.Observe(dspark.Step{
			Drafted: int(step.n_drafted), Verified: int(step.n_verified), Accepted: int(step.n_accepted),
			DraftNS: int64(step.draft_ns), StepNS: int64(step.step_ns),
			Draft: unsafe.Slice((*int32)(unsafe.Pointer(step.draft)), int(step.n_drafted)), Token: int32(step.token),
		})
	}
}

//export lesGoVerifyReset
func lesGoVerifyReset(key C.int32_t) {
	control.Lock()
	defer control.Unlock()
	dropLocked(key)
}

// dropLocked ends a controller; its counts stay.
func dropLocked(key C.int32_t) {
	if c := control.sequences[key]; c != nil {
		control.gone.add(c.Stats())
		control.sequences[key] = nil
	}
}

// forget ends a call; after a panic the sequence is left to its drafter.
func forget(key C.int32_t) {
	if recover() != nil {
		control.Lock()
		defer control.Unlock()
		control.sequences[key] = nil
	}
}
