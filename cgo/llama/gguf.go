package llama

/*
#include <stdlib.h>
#include "ggml.h"
#include "gguf.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

// TensorInfo describes a tensor in a file.
type TensorInfo struct {
	Name  string
	Type  TensorType
	Shape [4]int64 // row first, 1 where there is no such dimension
	Off   int64    // from the start of the file
	Bytes int64
}

// ErrNotGGUF is matched by errors of files that ggml cannot read.
var ErrNotGGUF = errors.New("not a GGUF file")

type notGGUFError struct{ path, reason string }

func (e *notGGUFError) Error() string        { return fmt.Sprintf("%s: cannot read: %s", e.path, e.reason) }
func (e *notGGUFError) Is(target error) bool { return target == ErrNotGGUF }

// File is the metadata of one GGUF file, as ggml's own reader sees it.
type File struct {
	gguf    *C.struct_gguf_context
	path    string
	tensors []TensorInfo
}

// OpenFile reads the metadata and checks that every tensor lies within the
// file.
func OpenFile(path string) (*File, error) {
	if err := checkReadable(path); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 {
		return nil, fmt.Errorf("%s: is empty", path)
	}
	var ctx *C.struct_gguf_context
	reason := errorsDuring("it is not a GGUF file", func() {
		err = withCString(path, func(cpath *C.char) {
			ctx = C.gguf_init_from_file(cpath, C.struct_gguf_init_params{no_alloc: true})
		})
	})
	if err != nil {
		return nil, err
	}
	if ctx == nil {
		return nil, &notGGUFError{path, reason}
	}
	file := &File{gguf: ctx, path: path}
	if err := file.readTensors(info.Size()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

// readTensors collects the tensors, and refuses one that is not wholly inside
// a file of that size. Sums are in unsigned numbers and cannot wrap: each
// part is compared before it is added.
func (f *File) readTensors(fileBytes int64) error {
	dataOff := uint64(C.gguf_get_data_offset(f.gguf))
	for i := range int64(C.gguf_get_n_tensors(f.gguf)) {
		id := C.int64_t(i)
		tensor := TensorInfo{
			Name: C.GoString(C.gguf_get_tensor_name(f.gguf, id)),
			Type: TensorType(C.gguf_get_tensor_type(f.gguf, id)),
		}
		ne := unsafe.Slice(C.gguf_get_tensor_ne(f.gguf, id), len(tensor.Shape))
		for dim := range tensor.Shape {
			tensor.Shape[dim] = int64(ne[dim])
		}
		off, size := uint64(C.gguf_get_tensor_offset(f.gguf, id)), uint64(C.gguf_get_tensor_size(f.gguf, id))
		limit := uint64(fileBytes)
		if dataOff > limit || off > limit-dataOff || size > limit-dataOff-off {
			return fmt.Errorf("%s: is cut off: tensor %s needs %d bytes at offset %d, the file has %d bytes",
				f.path, tensor.Name, size, dataOff+off, fileBytes)
		}
		tensor.Off, tensor.Bytes = int64(dataOff+off), int64(size)
		f.tensors = append(f.tensors, tensor)
	}
	return nil
}

// Close frees the metadata.
func (f *File) Close() {
	if f.gguf != nil {
		C.gguf_free(f.gguf)
		f.gguf = nil
	}
}

// Path is the name the file was opened by.
func (f *File) Path() string { return f.path }

// Tensors lists the tensors in file order.
func (f *File) Tensors() []TensorInfo { return f.tensors }

// find returns the id of a key, or false.
func (f *File) find(key string) (C.int64_t, bool) {
	id := C.int64_t(-1)
	err := withCString(key, func(ckey *C.char) { id = C.gguf_find_key(f.gguf, ckey) })
	return id, err == nil && id >= 0
}

// String returns a text value.
func (f *File) String(key string) (string, bool) {
	id, ok := f.find(key)
	if !ok || C.gguf_get_kv_type(f.gguf, id) != C.GGUF_TYPE_STRING {
		return "", false
	}
	return C.GoString(C.gguf_get_val_str(f.gguf, id)), true
}

// Int returns a whole number of any stored width; the first one, if the value
// is an array with one number a layer.
func (f *File) Int(key string) (int64, bool) {
	values, ok := f.Ints(key)
	if !ok || len(values) == 0 {
		return 0, false
	}
	return values[0], true
}

// Ints returns whole numbers of any stored width; a single value counts as an
// array of one.
func (f *File) Ints(key string) ([]int64, bool) {
	id, ok := f.find(key)
	if !ok {
		return nil, false
	}
	if kind := C.gguf_get_kv_type(f.gguf, id); kind != C.GGUF_TYPE_ARRAY {
		if kind == C.GGUF_TYPE_STRING {
			return nil, false
		}
		return widen(kind, C.gguf_get_val_data(f.gguf, id), 1)
	}
	kind := C.gguf_get_arr_type(f.gguf, id)
	if kind == C.GGUF_TYPE_STRING || kind == C.GGUF_TYPE_ARRAY {
		return nil, false
	}
	return widen(kind, C.gguf_get_arr_data(f.gguf, id), int(C.gguf_get_arr_n(f.gguf, id)))
}

// ArrayLen is the number of elements of an array.
func (f *File) ArrayLen(key string) (int, bool) {
	id, ok := f.find(key)
	if !ok || C.gguf_get_kv_type(f.gguf, id) != C.GGUF_TYPE_ARRAY {
		return 0, false
	}
	return int(C.gguf_get_arr_n(f.gguf, id)), true
}

// widen copies n numbers of a stored type into the widest one.
func widen(kind C.enum_gguf_type, data unsafe.Pointer, n int) ([]int64, bool) {
	switch kind {
	case C.GGUF_TYPE_UINT8, C.GGUF_TYPE_BOOL:
		return widened[uint8](data, n), true
	case C.GGUF_TYPE_INT8:
		return widened[int8](data, n), true
	case C.GGUF_TYPE_UINT16:
		return widened[uint16](data, n), true
	case C.GGUF_TYPE_INT16:
		return widened[int16](data, n), true
	case C.GGUF_TYPE_UINT32:
		return widened[uint32](data, n), true
	case C.GGUF_TYPE_INT32:
		return widened[int32](data, n), true
	case C.GGUF_TYPE_UINT64:
		return widened[uint64](data, n), true
	case C.GGUF_TYPE_INT64:
		return widened[int64](data, n), true
	}
	return nil, false
}

func widened[T uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64](data unsafe.Pointer, n int) []int64 {
	out := make([]int64, n)
	for i, value := range unsafe.Slice((*T)(data), n) {
		out[i] = int64(value)
	}
	return out
}
