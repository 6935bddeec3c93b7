package llama

/*
#include "quantize.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"
)

// Rows are rows of one matrix on their way from one type to another. Several
// may be converted side by side.
type Rows struct {
	From, To TensorType
	Columns  int64
	Src      []byte    // whole rows
	Dst      []byte    // as many rows
	Floats   []float32 // room for all elements, twice for Lost
	Weights  []float32 // importance of each column, nil for even ones
}

// Convert quantises Src into Dst by ggml's own functions.
func (r *Rows) Convert() error {
	var result C.enum_les_llama_rows_result
	r.lend(1, func(rows *C.struct_les_llama_rows) { result = C.les_llama_rows_convert(rows) })
	switch result {
	case C.LES_ROWS_BAD_SOURCE:
		return notSound(r.From)
	case C.LES_ROWS_BAD_RESULT:
		return fmt.Errorf("cannot be put into %s: the result is not a number", r.To)
	}
	return nil
}

// CheckRows refuses rows that hold what Convert refuses in its source.
func CheckRows(t TensorType, rows []byte) error {
	if len(rows) > 0 && !C.les_llama_rows_valid(C.int32_t(t), unsafe.Pointer(&rows[0]), C.size_t(len(rows))) {
		return notSound(t)
	}
	return nil
}

func notSound(t TensorType) error {
	return fmt.Errorf("has values that are no numbers, or damaged %s blocks", t)
}

// Lost says what the last Convert of the same rows lost: the sum of the squared
// differences and that of the squares, both weighted.
func (r *Rows) Lost() (lost, all float64) {
	var clost, call C.double
	r.lend(2, func(rows *C.struct_les_llama_rows) { C.les_llama_rows_lost(rows, &clost, &call) })
	return float64(clost), float64(call)
}

// lend shows the rows to C for the time of a call that writes all elements as
// numbers so many times.
func (r *Rows) lend(times int64, fn func(*C.struct_les_llama_rows)) {
	rows, err := r.rows(times)
	if err != nil {
		panic("llama: " + err.Error())
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	pinner.Pin(&r.Src[0])
	pinner.Pin(&r.Dst[0])
	pinner.Pin(&r.Floats[0])
	c := C.struct_les_llama_rows{
		src: unsafe.Pointer(&r.Src[0]), dst: unsafe.Pointer(&r.Dst[0]), floats: (*C.float)(unsafe.Pointer(&r.Floats[0])),
		n_rows: C.int64_t(rows), n_columns: C.int64_t(r.Columns), from: C.int32_t(r.From), to: C.int32_t(r.To),
	}
	if r.Weights != nil {
		pinner.Pin(&r.Weights[0])
		c.weights = (*C.float)(unsafe.Pointer(&r.Weights[0]))
	}
	fn(&c)
}

// rows counts them, and finds buffers that do not fit each other.
func (r *Rows) rows(times int64) (int64, error) {
	from, to := r.From.RowBytes(r.Columns), r.To.RowBytes(r.Columns)
	rows := int64(len(r.Src)) / max(1, from)
	switch {
	case from == 0 || to == 0 || rows == 0 || int64(len(r.Src)) != rows*from:
		return 0, errors.New("rows: the source is not whole rows")
	case int64(len(r.Dst)) != rows*to:
		return 0, errors.New("rows: no room for the result")
	case int64(len(r.Floats)) < times*rows*r.Columns:
		return 0, fmt.Errorf("rows: room for %d numbers, not for %d times %d", len(r.Floats), times, rows*r.Columns)
	case r.Weights != nil && int64(len(r.Weights)) != r.Columns:
		return 0, errors.New("rows: not a weight for each column")
	}
	return rows, nil
}

// RowBytes is the size of a row, 0 if its elements are not whole blocks.
func (t TensorType) RowBytes(columns int64) int64 {
	if columns%t.BlockElements() != 0 {
		return 0
	}
	return columns / t.BlockElements() * t.BlockBytes()
}

// Readable says whether elements of the type can be turned into numbers.
func (t TensorType) Readable() bool {
	return t == F32 || t < C.GGML_TYPE_COUNT && C.ggml_get_type_traits(C.enum_ggml_type(t)).to_float != nil
}

// Quantized says whether it is a type of blocks.
func (t TensorType) Quantized() bool { return bool(C.ggml_is_quantized(C.enum_ggml_type(t))) }

// Writable says whether Convert can make the type.
func (t TensorType) Writable() bool {
	switch t {
	case F32, F16, BF16:
		return true
	}
	// Types without a reference quantiser are those that only computing uses.
	return t.Quantized() && t.Readable() && t != q8_1 && t != q8_K
}

// NeedsWeights says whether llama.cpp refuses the type without importance data.
func (t TensorType) NeedsWeights() bool {
	switch t {
	case C.GGML_TYPE_IQ3_XXS, C.GGML_TYPE_IQ2_XXS, C.GGML_TYPE_IQ2_XS, C.GGML_TYPE_IQ2_S, C.GGML_TYPE_IQ1_M, C.GGML_TYPE_IQ1_S:
		return true
	}
	return false
}
