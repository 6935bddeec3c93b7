package llama

import (
	"strings"
	"testing"
)

func TestQuantizePlanTakesTypesAskedFor(t *testing.T) {
	list, err := PlanQuantize("../../models/les-ref.gguf", QuantizeChoice{
		FileType: fileTypes["q4_k_m"], Tensors: map[string]TensorType{"blk.0.ffn_up_exps.weight": Q3K},
	})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]TensorType{}
	for _, tensor := range list {
		types[tensor.Name] = tensor.Type
	}
	want := map[string]TensorType{
		"blk.0.ffn_up_exps.weight": Q3K, "blk.1.ffn_up_exps.weight": Q4K, "blk.0.ffn_gate_inp.weight": F32, "token_embd.weight": Q6K,
	}
	for name, w := range want {
		if types[name] != w {
			t.Errorf("%s: %v, want %v", name, types[name], w)
		}
	}
}

// Lost writes the numbers of the result behind those of the source.
func TestLostRefusesTooLittleRoom(t *testing.T) {
	r := Rows{From: F32, To: F16, Columns: 32, Src: make([]byte, 128), Dst: make([]byte, 64), Floats: make([]float32, 32)}
	if err := r.Convert(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if text, _ := recover().(string); !strings.Contains(text, "room for 32 numbers, not for 2 times 32") {
			t.Errorf("panic is %q", text)
		}
	}()
	r.Lost()
}
