package measure

/*
#cgo CXXFLAGS: -std=c++17 -I${SRCDIR}/../../llama/llama.cpp -I${SRCDIR}/../../llama/llama.cpp/common
#cgo CXXFLAGS: -I${SRCDIR}/../../llama/llama.cpp/include -I${SRCDIR}/../../llama/llama.cpp/ggml/include
#cgo CFLAGS: -I${SRCDIR}/../../llama/llama.cpp/include -I${SRCDIR}/../../llama/llama.cpp/ggml/include
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lllama -lggml -lggml-base
#include <stdlib.h>
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// withCStrings lends texts to fn as C strings. One that holds a NUL byte would be
// cut silently, so it is refused.
func withCStrings(texts []string, fn func([]*C.char)) error {
	for _, text := range texts {
		if at := strings.IndexByte(text, 0); at >= 0 {
			return fmt.Errorf("a NUL byte at %d, after %q", at, text[max(0, at-20):at])
		}
	}
	var list []*C.char
	for _, text := range texts {
		list = append(list, C.CString(text))
	}
	defer func() {
		for _, text := range list {
			C.free(unsafe.Pointer(text))
		}
	}()
	fn(list)
	return nil
}

// takeString copies a C string and frees it.
func takeString(text *C.char) string {
	defer C.free(unsafe.Pointer(text))
	return C.GoString(text)
}
