package llama

/*
#include "llama.h"
*/
import "C"

import "fmt"

// TensorType is the storage type of a tensor.
type TensorType int32

// The storage types this project writes.
const (
	F32   TensorType = C.GGML_TYPE_F32
	F16   TensorType = C.GGML_TYPE_F16
	BF16  TensorType = C.GGML_TYPE_BF16
	I8    TensorType = C.GGML_TYPE_I8
	Q8_0  TensorType = C.GGML_TYPE_Q8_0
	MXFP4 TensorType = C.GGML_TYPE_MXFP4
	Q2K   TensorType = C.GGML_TYPE_Q2_K
	Q3K   TensorType = C.GGML_TYPE_Q3_K
	Q4K   TensorType = C.GGML_TYPE_Q4_K
	Q5K   TensorType = C.GGML_TYPE_Q5_K
	Q6K   TensorType = C.GGML_TYPE_Q6_K

	IQ3XXS TensorType = C.GGML_TYPE_IQ3_XXS

	q8_1 TensorType = C.GGML_TYPE_Q8_1
	q8_K TensorType = C.GGML_TYPE_Q8_K
)

// String is ggml's name of the type.
func (t TensorType) String() string {
	return C.GoString(C.ggml_type_name(C.enum_ggml_type(t)))
}

// BlockElements is the number of elements in one block of the type.
func (t TensorType) BlockElements() int64 {
	return int64(C.ggml_blck_size(C.enum_ggml_type(t)))
}

// BlockBytes is the size of one block of the type.
func (t TensorType) BlockBytes() int64 {
	return int64(C.ggml_type_size(C.enum_ggml_type(t)))
}

// checkShape refuses shapes that ggml would abort on.
func checkShape(name string, t TensorType, shape []int64) error {
	if len(shape) < 1 || len(shape) > C.GGML_MAX_DIMS {
		return fmt.Errorf("tensor %s: %d dimensions", name, len(shape))
	}
	for _, n := range shape {
		if n <= 0 {
			return fmt.Errorf("tensor %s: dimension %d", name, n)
		}
	}
	if shape[0]%t.BlockElements() != 0 {
		return fmt.Errorf("tensor %s: rows of %d elements do not divide into %s blocks", name, shape[0], t)
	}
	return nil
}
