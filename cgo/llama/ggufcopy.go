package llama

/*
#include <stdlib.h>
#include "ggml.h"
#include "gguf.h"
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// KeyAlignment is the key that says what the offsets of tensors are multiples
// of.
const KeyAlignment = "general.alignment"

// AlignmentMax bounds what a writer pads its metadata to, which it does in
// memory. What is in use is 32, and the 4096 of the contiguous layout.
const AlignmentMax = 1 << 16

// Alignment is what the offsets of the tensors are multiples of.
func (f *File) Alignment() int64 { return int64(C.gguf_get_alignment(f.gguf)) }

// DataOff is where the tensor data starts; everything before is metadata.
func (f *File) DataOff() int64 { return int64(C.gguf_get_data_offset(f.gguf)) }

// Keys lists the keys in file order.
func (f *File) Keys() []string {
	keys := make([]string, C.gguf_get_n_kv(f.gguf))
	for i := range keys {
		keys[i] = C.GoString(C.gguf_get_key(f.gguf, C.int64_t(i)))
	}
	return keys
}

// Strings returns an array of texts.
func (f *File) Strings(key string) ([]string, bool) {
	id, ok := f.find(key)
	if !ok || C.gguf_get_kv_type(f.gguf, id) != C.GGUF_TYPE_ARRAY || C.gguf_get_arr_type(f.gguf, id) != C.GGUF_TYPE_STRING {
		return nil, false
	}
	texts := make([]string, C.gguf_get_arr_n(f.gguf, id))
	for i := range texts {
		texts[i] = C.GoString(C.gguf_get_arr_str(f.gguf, id, C.size_t(i)))
	}
	return texts, true
}

// Bytes returns an array of unsigned bytes.
func (f *File) Bytes(key string) ([]byte, bool) {
	id, ok := f.find(key)
	if !ok || C.gguf_get_kv_type(f.gguf, id) != C.GGUF_TYPE_ARRAY || C.gguf_get_arr_type(f.gguf, id) != C.GGUF_TYPE_UINT8 {
		return nil, false
	}
	n := int(C.gguf_get_arr_n(f.gguf, id))
	return bytes.Clone(unsafe.Slice((*byte)(C.gguf_get_arr_data(f.gguf, id)), n)), true
}

// NewAlignedWriter returns a writer for at most tensorsMax tensors, whose
// offsets are multiples of alignment. The key that says so is the caller's.
func NewAlignedWriter(tensorsMax int, alignment int64) (*Writer, error) {
	if alignment <= 0 || alignment > AlignmentMax || alignment&(alignment-1) != 0 {
		return nil, fmt.Errorf("%s is %d, want a power of two up to %d", KeyAlignment, alignment, AlignmentMax)
	}
	w, err := NewWriter(tensorsMax)
	if err != nil {
		return nil, err
	}
	// ggml takes the alignment of its metadata from a file alone, so it is given
	// one that has nothing else.
	empty := binary.LittleEndian.AppendUint64([]byte("GGUF\x03\x00\x00\x00"), 0) // no tensors
	empty = binary.LittleEndian.AppendUint64(empty, 1)                           // one key
	empty = binary.LittleEndian.AppendUint64(empty, uint64(len(KeyAlignment)))
	empty = append(empty, KeyAlignment...)
	empty = binary.LittleEndian.AppendUint32(empty, C.GGUF_TYPE_UINT32)
	empty = binary.LittleEndian.AppendUint32(empty, uint32(alignment))
	aligned := C.gguf_init_from_buffer(unsafe.Pointer(&empty[0]), C.size_t(len(empty)), C.struct_gguf_init_params{no_alloc: true})
	if aligned == nil {
		w.Close()
		return nil, errors.New("gguf writer: ggml does not take an alignment")
	}
	C.gguf_free(w.gguf)
	w.gguf = aligned
	w.RemoveKey(KeyAlignment)
	return w, nil
}

// CopyKeys appends the keys of a file that are to be kept, in file order.
func (w *Writer) CopyKeys(from *File, keep func(key string) bool) {
	into := w.gguf
	if C.gguf_get_n_kv(w.gguf) > 0 { // ggml copies all keys or none
		into = C.gguf_init_empty()
		defer C.gguf_free(into)
	}
	C.gguf_set_kv(into, from.gguf)
	for _, key := range from.Keys() {
		if !keep(key) {
			removeKey(into, key)
		}
	}
	if into != w.gguf {
		C.gguf_set_kv(w.gguf, into)
	}
}

// RemoveKey removes a key if it is there.
func (w *Writer) RemoveKey(key string) { removeKey(w.gguf, key) }

func removeKey(gguf *C.struct_gguf_context, key string) {
	// A key that came from a file has no NUL byte, and no other is asked for.
	_ = withCString(key, func(k *C.char) { C.gguf_remove_key(gguf, k) })
}

// SetUint16 sets key to an unsigned number of 16 bits.
func (w *Writer) SetUint16(key string, value uint16) error {
	return withCString(key, func(k *C.char) { C.gguf_set_val_u16(w.gguf, k, C.uint16_t(value)) })
}

// SetUint64 sets key to an unsigned number of 64 bits.
func (w *Writer) SetUint64(key string, value uint64) error {
	return withCString(key, func(k *C.char) { C.gguf_set_val_u64(w.gguf, k, C.uint64_t(value)) })
}

// SetUint32s sets key to an array of unsigned numbers.
func (w *Writer) SetUint32s(key string, values []uint32) error {
	return setArray(w, key, C.GGUF_TYPE_UINT32, values)
}

// SetUint64s sets key to an array of unsigned numbers of 64 bits.
func (w *Writer) SetUint64s(key string, values []uint64) error {
	return setArray(w, key, C.GGUF_TYPE_UINT64, values)
}

// SetFloat32s sets key to an array of numbers.
func (w *Writer) SetFloat32s(key string, values []float32) error {
	return setArray(w, key, C.GGUF_TYPE_FLOAT32, values)
}

// SetBytes sets key to an array of bytes.
func (w *Writer) SetBytes(key string, values []byte) error {
	return setArray(w, key, C.GGUF_TYPE_UINT8, values)
}

func setArray[T uint8 | uint32 | uint64 | float32](w *Writer, key string, kind C.enum_gguf_type, values []T) error {
	return withCString(key, func(k *C.char) {
		C.gguf_set_arr_data(w.gguf, k, kind, unsafe.Pointer(unsafe.SliceData(values)), C.size_t(len(values)))
	})
}
