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
	"unsafe"
)

// Writer builds the metadata of a GGUF file. The caller writes the tensor
// data itself, at MetaBytes + Offset of each tensor.
type Writer struct {
	gguf    *C.struct_gguf_context
	tensors *C.struct_ggml_context // descriptions only, no data
	names   map[string]bool
}

// NewWriter returns a writer for at most tensorsMax tensors.
func NewWriter(tensorsMax int) (*Writer, error) {
	params := C.struct_ggml_init_params{
		mem_size: C.size_t(tensorsMax+1) * C.ggml_tensor_overhead(),
		no_alloc: true,
	}
	tensors := C.ggml_init(params)
	if tensors == nil {
		return nil, errors.New("gguf writer: out of memory")
	}
	return &Writer{gguf: C.gguf_init_empty(), tensors: tensors, names: map[string]bool{}}, nil
}

// Close frees the writer. It does not touch any file.
func (w *Writer) Close() {
	if w.gguf == nil {
		return
	}
	C.gguf_free(w.gguf)
	C.ggml_free(w.tensors)
	w.gguf, w.tensors = nil, nil
}

// SetString sets key to a string.
func (w *Writer) SetString(key, value string) error {
	var inner error
	err := withCString(key, func(k *C.char) {
		inner = withCString(value, func(v *C.char) { C.gguf_set_val_str(w.gguf, k, v) })
	})
	return errors.Join(err, inner)
}

// SetUint32 sets key to an unsigned number.
func (w *Writer) SetUint32(key string, value uint32) error {
	return withCString(key, func(k *C.char) { C.gguf_set_val_u32(w.gguf, k, C.uint32_t(value)) })
}

// SetFloat32 sets key to a float.
func (w *Writer) SetFloat32(key string, value float32) error {
	return withCString(key, func(k *C.char) { C.gguf_set_val_f32(w.gguf, k, C.float(value)) })
}

// SetBool sets key to a truth value.
func (w *Writer) SetBool(key string, value bool) error {
	return withCString(key, func(k *C.char) { C.gguf_set_val_bool(w.gguf, k, C.bool(value)) })
}

// SetInt32s sets key to an array of signed numbers.
func (w *Writer) SetInt32s(key string, values []int32) error {
	return withCString(key, func(k *C.char) {
		C.gguf_set_arr_data(w.gguf, k, C.GGUF_TYPE_INT32, unsafe.Pointer(unsafe.SliceData(values)), C.size_t(len(values)))
	})
}

// SetStrings sets key to an array of strings, which must not hold NUL bytes.
func (w *Writer) SetStrings(key string, values []string) error {
	total := 0
	for _, value := range values {
		total += len(value) + 1
	}
	text := (*byte)(C.malloc(C.size_t(total + 1)))
	defer C.free(unsafe.Pointer(text))
	list := (**C.char)(C.malloc(C.size_t(len(values)+1) * C.size_t(unsafe.Sizeof(text))))
	defer C.free(unsafe.Pointer(list))

	bytes := unsafe.Slice(text, total+1)
	pointers := unsafe.Slice(list, len(values))
	off := 0
	for i, value := range values {
		pointers[i] = (*C.char)(unsafe.Pointer(&bytes[off]))
		off += copy(bytes[off:], value)
		bytes[off] = 0
		off++
	}
	return withCString(key, func(k *C.char) { C.gguf_set_arr_str(w.gguf, k, list, C.size_t(len(values))) })
}

// AddTensor appends a tensor description. The first dimension is the row.
func (w *Writer) AddTensor(name string, t TensorType, shape ...int64) error {
	if err := checkShape(name, t, shape); err != nil {
		return err
	}
	if len(name) >= C.GGML_MAX_NAME || w.names[name] {
		return fmt.Errorf("tensor %s: name too long or used twice", name)
	}
	w.names[name] = true
	ne := make([]C.int64_t, len(shape))
	for i, n := range shape {
		ne[i] = C.int64_t(n)
	}
	tensor := C.ggml_new_tensor(w.tensors, C.enum_ggml_type(t), C.int(len(ne)), &ne[0])
	return withCString(name, func(cname *C.char) {
		C.ggml_set_name(tensor, cname)
		C.gguf_add_tensor(w.gguf, tensor)
	})
}

// MetaBytes is the size of everything before the tensor data.
func (w *Writer) MetaBytes() int64 { return int64(C.gguf_get_meta_size(w.gguf)) }

// Tensor returns the place of the i-th tensor, its offset counted from the
// start of the tensor data.
func (w *Writer) Tensor(i int) (off, size int64) {
	return int64(C.gguf_get_tensor_offset(w.gguf, C.int64_t(i))), int64(C.gguf_get_tensor_size(w.gguf, C.int64_t(i)))
}

// DataBytes is the size of the tensor data with its padding.
func (w *Writer) DataBytes() int64 {
	n := int64(C.gguf_get_n_tensors(w.gguf))
	if n == 0 {
		return 0
	}
	off, size := w.Tensor(int(n - 1))
	align := int64(C.gguf_get_alignment(w.gguf))
	return off + (size+align-1)/align*align
}

// Meta returns everything before the tensor data.
func (w *Writer) Meta() []byte {
	meta := make([]byte, w.MetaBytes())
	C.gguf_get_meta_data(w.gguf, unsafe.Pointer(&meta[0]))
	return meta
}
