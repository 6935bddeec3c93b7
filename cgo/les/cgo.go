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

import (
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/slot"
)

// Words, alignment and spans are C's, and lesext repeats them because it knows
// no C. Where the two differ, an index is out of range and this does not compile.
var (
	_ = [1]struct{}{}[expert.Align-C.LES_ALIGN]
	_ = [1]struct{}{}[expert.SpansMax-C.LES_MAX_SPANS]
	_ = [1]struct{}{}[slot.FlagFailed-C.LES_WORD_FAILED]
	_ = [1]struct{}{}[slot.Max+2-1<<(32-C.LES_WORD_SLOT_SHIFT)]
)

// withCString lends text to fn as a C string.
func withCString(text string, fn func(*C.char)) {
	cs := C.CString(text)
	defer C.free(unsafe.Pointer(cs))
	fn(cs)
}
