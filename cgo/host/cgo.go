// Package host is the engine of programs that do not know of it: hooks in
// llama.cpp's load, context and free (les-host.h) call into it, and it streams
// what they load with package les.
//
// Register makes it the engine of the process. Every call comes from a thread of
// the program; none prints or panics. Only changes of budget or slots, and the end
// of a model, wait for layers and reads in progress. A failure is left in
// les_host_last_error, and the hooks tell llama.cpp's log.
package host

/*
#cgo CFLAGS: -I${SRCDIR}/../les/csrc
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lggml-base -Wl,-rpath,$ORIGIN -Wl,-rpath,${SRCDIR}/../../build/bin
#include <stdlib.h>
#include "bridge.h"
#include "ggml.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Register makes this package the engine of the process. It may be called again.
func Register() error {
	if C.les_host_bridge_register() != 0 {
		return errors.New("the process has another engine, or libllama is of another version")
	}
	return nil
}

// SetOption gives coming loads one of the options of les-option.h: mode, budget,
// slots, lookahead, lanes or warm, spelled as the values of lescli's flags.
func SetOption(name, value string) error {
	var reason string
	withCString(name, func(name *C.char) {
		withCString(value, func(value *C.char) { reason = C.GoString(C.les_option_set(name, value)) })
	})
	if reason != "" {
		return fmt.Errorf("%s: %s", name, reason)
	}
	return nil
}

// ResetOptions takes back what SetOption gave.
func ResetOptions() { C.les_option_reset() }

// logf writes a line to the program's log.
func logf(level C.int32_t, format string, args ...any) {
	line{level, fmt.Sprintf(format, args...)}.write()
}

const (
	levelInfo C.int32_t = C.GGML_LOG_LEVEL_INFO
	levelWarn C.int32_t = C.GGML_LOG_LEVEL_WARN
)

// withCString lends text to fn as a C string.
func withCString(text string, fn func(*C.char)) {
	cs := C.CString(text)
	defer C.free(unsafe.Pointer(cs))
	fn(cs)
}
