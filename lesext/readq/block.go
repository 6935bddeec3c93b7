package readq

import (
	"unsafe"

	"github.com/les-project/les/lesext/expert"
)

// alignedBlock returns one block of memory at an aligned address.
func alignedBlock() []byte {
	b := make([]byte, 2*expert.Align)
	skip := -uintptr(unsafe.Pointer(&b[0])) % expert.Align
	return b[skip : skip+expert.Align]
}
