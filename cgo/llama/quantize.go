package llama

/*
#include <stdlib.h>
#include "quantize.h"
*/
import "C"

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"
)

// QuantizationVersion is that of the block layouts, as files say it.
const QuantizationVersion = C.GGML_QNT_VERSION

// FileType is a mixture of types that llama.cpp quantises a whole file to.
type FileType int32

// fileTypes are the mixtures, under the names llama-quantize has for them.
var fileTypes = map[string]FileType{
	"q2_k": C.LLAMA_FTYPE_MOSTLY_Q2_K, "q2_k_s": C.LLAMA_FTYPE_MOSTLY_Q2_K_S,
	"q3_k_s": C.LLAMA_FTYPE_MOSTLY_Q3_K_S, "q3_k_m": C.LLAMA_FTYPE_MOSTLY_Q3_K_M, "q3_k_l": C.LLAMA_FTYPE_MOSTLY_Q3_K_L,
	"q4_k_s": C.LLAMA_FTYPE_MOSTLY_Q4_K_S, "q4_k_m": C.LLAMA_FTYPE_MOSTLY_Q4_K_M,
	"q5_k_s": C.LLAMA_FTYPE_MOSTLY_Q5_K_S, "q5_k_m": C.LLAMA_FTYPE_MOSTLY_Q5_K_M,
	"q6_k": C.LLAMA_FTYPE_MOSTLY_Q6_K, "q8_0": C.LLAMA_FTYPE_MOSTLY_Q8_0,
	"q4_0": C.LLAMA_FTYPE_MOSTLY_Q4_0, "q4_1": C.LLAMA_FTYPE_MOSTLY_Q4_1,
	"q5_0": C.LLAMA_FTYPE_MOSTLY_Q5_0, "q5_1": C.LLAMA_FTYPE_MOSTLY_Q5_1,
	"iq3_xs": C.LLAMA_FTYPE_MOSTLY_IQ3_XS, "iq3_s": C.LLAMA_FTYPE_MOSTLY_IQ3_S, "iq3_m": C.LLAMA_FTYPE_MOSTLY_IQ3_M,
	"iq4_nl": C.LLAMA_FTYPE_MOSTLY_IQ4_NL, "iq4_xs": C.LLAMA_FTYPE_MOSTLY_IQ4_XS,
}

// FileTypeNames lists what ParseFileType takes.
func FileTypeNames() []string {
	var names []string
	for name := range fileTypes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// ParseFileType finds a mixture by its name.
func ParseFileType(name string) (FileType, bool) {
	ftype, ok := fileTypes[strings.ToLower(name)]
	return ftype, ok
}

// String is the name of the mixture.
func (f FileType) String() string {
	for name, ftype := range fileTypes {
		if ftype == f {
			return name
		}
	}
	return fmt.Sprintf("file type %d", int32(f))
}

// ParseTensorType finds a type by ggml's name for it.
func ParseTensorType(name string) (TensorType, bool) {
	for t := range TensorType(C.GGML_TYPE_COUNT) {
		if strings.EqualFold(t.String(), name) {
			return t, true
		}
	}
	return 0, false
}

// QuantizeChoice is what a file is to be quantised to.
type QuantizeChoice struct {
	FileType FileType
	Tensors  map[string]TensorType // instead of what the file type gives these tensors
	Imatrix  bool                  // there is importance data
}

// QuantizedTensor is what llama.cpp makes of one tensor.
type QuantizedTensor struct {
	Name  string
	Type  TensorType
	Asked TensorType // another one where Asked does not divide the tensor's rows
}

// planning guards the log of the library, which a plan takes for its time.
var planning sync.Mutex

// PlanQuantize asks llama.cpp's quantiser which type it would give each tensor
// of a model, in the order in which it would write them. It reads metadata only.
func PlanQuantize(path string, choice QuantizeChoice) ([]QuantizedTensor, error) {
	var overrides strings.Builder
	for name, t := range choice.Tensors {
		fmt.Fprintf(&overrides, "%d ^%s$\n", int(t), regexp.QuoteMeta(name))
	}
	var text string
	var agreed C.bool
	var inner error
	err := withCString(path, func(cpath *C.char) {
		inner = withCString(overrides.String(), func(list *C.char) {
			planning.Lock()
			defer planning.Unlock()
			log := C.les_llama_quantize_plan(cpath, C.enum_llama_ftype(choice.FileType), C.bool(choice.Imatrix), list, &agreed)
			text = C.GoString(log)
			C.free(unsafe.Pointer(log))
		})
	})
	switch {
	case err != nil:
		return nil, err
	case inner != nil:
		return nil, inner
	case !bool(agreed):
		return nil, fmt.Errorf("%s: llama.cpp cannot quantise it: %s", path, failure(text))
	}
	return parseQuantizePlan(text)
}

// failure is the reason in the log of a call that failed.
func failure(text string) string {
	const mark = "failed to quantize: "
	if i := strings.LastIndex(text, mark); i >= 0 {
		return strings.TrimSpace(text[i+len(mark):])
	}
	return "it gave no reason"
}

// Lines of the log of a dry run: one for each tensor, and before these one for
// each that does not get the type it should.
var (
	quantizeLine = regexp.MustCompile(`^\[ *(\d+)/ *(\d+)\] (.+?) +- \[[^\]]*\], type = +(\S+), size = +[0-9.]+ MiB(?: -> +[0-9.]+ MiB \((\S+)\))?$`)
	fallbackLine = regexp.MustCompile(`^warning: (.+?) +- ncols +\d+ not divisible by +\d+ \(required for type +(\S+)\)`)
)

func parseQuantizePlan(text string) ([]QuantizedTensor, error) {
	asked := map[string]string{}
	var list []QuantizedTensor
	total := 0
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := fallbackLine.FindStringSubmatch(line); m != nil {
			asked[m[1]] = m[2]
		}
		m := quantizeLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		tensor, err := quantizedTensor(m, asked)
		if err != nil {
			return nil, err
		}
		list = append(list, tensor)
		total, _ = strconv.Atoi(m[2]) // digits, by the pattern
	}
	if len(list) == 0 || len(list) != total {
		return nil, fmt.Errorf("llama.cpp's log tells of %d tensors, %d of them could be read", total, len(list))
	}
	return list, nil
}

func quantizedTensor(m []string, asked map[string]string) (QuantizedTensor, error) {
	name := m[4]
	if m[5] != "" {
		name = m[5]
	}
	tensor := QuantizedTensor{Name: m[3]}
	var known bool
	if tensor.Type, known = ParseTensorType(name); !known {
		return tensor, fmt.Errorf("tensor %s: llama.cpp's log has an unknown type %q", tensor.Name, name)
	}
	tensor.Asked = tensor.Type
	if want, ok := asked[tensor.Name]; ok {
		if tensor.Asked, known = ParseTensorType(want); !known {
			return tensor, fmt.Errorf("tensor %s: llama.cpp's log has an unknown type %q", tensor.Name, want)
		}
	}
	return tensor, nil
}
