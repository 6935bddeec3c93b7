package llama

/*
#include <stdint.h>
*/
import "C"

import "runtime/cgo"

//export lesLlamaProgress
func lesLlamaProgress(progress C.float, handle C.uintptr_t) C.int {
	report := cgo.Handle(handle).Value().(func(float32) bool)
	if report(float32(progress)) {
		return 1
	}
	return 0
}
