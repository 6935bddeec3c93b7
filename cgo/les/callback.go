package les

/*
#include <stdint.h>
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"time"
	"unsafe"
)

// The functions below run on compute thread 0, inside a graph. They take no
// lock that is held across a read, allocate nothing in the steady state, and
// turn a panic into -1, which fails the step.

//export lesGoRouted
func lesGoRouted(handle C.uintptr_t, layer C.int32_t, ids *C.int32_t, n C.int32_t, spans C.uint32_t, tokens C.int32_t) (starved C.int32_t) {
	e := engineOf(handle)
	defer e.returns(&starved, time.Now())
	return C.int32_t(e.sched.Routed(int(layer), idSlice(ids, n), uint32(spans), int(tokens)))
}

//export lesGoPredicted
func lesGoPredicted(handle C.uintptr_t, layer C.int32_t, ids *C.int32_t, n C.int32_t) (status C.int32_t) {
	e := engineOf(handle)
	defer e.returns(&status, time.Now())
	e.sched.Predicted(int(layer), idSlice(ids, n))
	return 0
}

//export lesGoReleased
func lesGoReleased(handle C.uintptr_t, layer C.int32_t, ids *C.int32_t, n C.int32_t) (status C.int32_t) {
	e := engineOf(handle)
	defer e.returns(&status, time.Now())
	e.sched.Released(int(layer), idSlice(ids, n))
	return 0
}

func engineOf(handle C.uintptr_t) *Engine {
	return cgo.Handle(handle).Value().(*Engine)
}

// idSlice sees C memory as a slice that is valid during the call.
func idSlice(ids *C.int32_t, n C.int32_t) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(ids)), int(n))
}

// returns ends a callback: it counts the time since its begin and keeps a panic
// out of the C frames below.
func (e *Engine) returns(status *C.int32_t, begin time.Time) {
	e.callbackNS.Add(int64(time.Since(begin)))
	e.callbacks.Add(1)
	if r := recover(); r != nil {
		*status = -1
		e.fail(fmt.Errorf("scheduler: %v", r))
	}
}
