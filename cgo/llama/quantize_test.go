package llama

import "testing"

func TestQuantizePlanSaysWhatFallsBack(t *testing.T) {
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
