// Package llama is a thin binding of the llama.cpp calls this project uses:
// loading models, decoding batches, sampling, and reading and writing GGUF
// metadata through ggml's own functions.
//
// C owns all memory behind a Model, Context, Batch, Sampler, File or Writer;
// each has a Close that frees it and is safe to call twice. Values of this
// package are not safe for concurrent use, except Model, which may be read by
// several goroutines. No Go pointer is kept by C after a call returns.
package llama

/*
#cgo CFLAGS: -I${SRCDIR}/../../llama/llama.cpp/include -I${SRCDIR}/../../llama/llama.cpp/ggml/include
#cgo CXXFLAGS: -std=c++17 -I${SRCDIR}/../../llama/llama.cpp/include -I${SRCDIR}/../../llama/llama.cpp/ggml/include -I${SRCDIR}/../../llama/llama.cpp/src -I${SRCDIR}/../les/csrc
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lllama -lggml -lggml-base -Wl,-rpath,$ORIGIN -Wl,-rpath,${SRCDIR}/../../build/bin
#include <stdlib.h>
#include "llama.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// withCString lends s to fn as a C string and frees it afterwards. A string
// holding a NUL byte would be cut silently, so it is refused.
func withCString(s string, fn func(*C.char)) error {
	if strings.IndexByte(s, 0) >= 0 {
		return fmt.Errorf("%q holds a NUL byte", s)
	}
	cs := C.CString(s)
	defer C.free(unsafe.Pointer(cs))
	fn(cs)
	return nil
}

// readString calls fill with a growing buffer until the text fits. fill
// returns the length of the text, without its NUL, or a negative number when
// there is no text.
func readString(size int, fill func(buf *C.char, size C.size_t) C.int32_t) (string, bool) {
	for {
		buf := make([]byte, size)
		n := int(fill((*C.char)(unsafe.Pointer(&buf[0])), C.size_t(size)))
		if n < 0 {
			return "", false
		}
		if n < size {
			return string(buf[:n]), true
		}
		size = n + 1
	}
}

// Version is the version of the llama.cpp library in use.
func Version() string { return C.GoString(C.llama_version()) }

// SystemInfo names the backends in use, and what their kernels were compiled for.
func SystemInfo() string { return C.GoString(C.llama_print_system_info()) }
