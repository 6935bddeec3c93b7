package draft

/*
#cgo CFLAGS: -I${SRCDIR}/csrc -I${SRCDIR}/../../llama/llama.cpp/include -I${SRCDIR}/../../llama/llama.cpp/ggml/include
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lles-draft -lllama -Wl,-rpath,$ORIGIN -Wl,-rpath,${SRCDIR}/../../build/bin
#include <stdlib.h>
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
