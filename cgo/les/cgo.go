// Package les joins the scheduler in lesext with the C side of LES: it offers a
// model load to LES, reads the geometry that the loader found, plans memory,
// and carries the calls of compute thread 0 into the scheduler.
//
// Life: Prepare, load the model, Streamed.Seal, make a context, Streamed.Open,
// decode, Engine.Close, free the context and the model. C owns the arena of
// expert slots and the table of words; the scheduler sees the arena as a byte
// slice that stays valid until the model is freed and the engine is closed.
package les

/*
#cgo CFLAGS: -I${SRCDIR}/csrc
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lggml-base -Wl,-rpath,$ORIGIN -Wl,-rpath,${SRCDIR}/../../build/bin
#cgo noescape les_model_publish
#cgo nocallback les_model_publish
#cgo noescape les_model_populate
#cgo nocallback les_model_populate
#include <stdlib.h>
#include "les.h"
*/
import "C"

import "unsafe"

// Word flags and alignment are C's; lesext repeats them, and a test compares.
const (
	wordFailed    = uint32(C.LES_WORD_FAILED)
	wordSlotShift = C.LES_WORD_SLOT_SHIFT
	align         = C.LES_ALIGN
	spansMax      = C.LES_MAX_SPANS
)

// withCString lends text to fn as a C string.
func withCString(text string, fn func(*C.char)) {
	cs := C.CString(text)
	defer C.free(unsafe.Pointer(cs))
	fn(cs)
}
