package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// handMadeModel writes a model file with these tensors, all zero, of the given
// architecture with 8 experts, top-2, in one layer.
func handMadeModel(t *testing.T, arch string, tensors map[string][]int64) string {
	t.Helper()
	w, err := llama.NewWriter(len(tensors))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.SetString("general.architecture", arch))
	check(w.SetUint32(arch+".block_count", 1))
	check(w.SetUint32(arch+".expert_count", 8))
	check(w.SetUint32(arch+".expert_used_count", 2))
	for name, shape := range tensors {
		check(w.AddTensor(name, llama.F32, shape...))
	}
	path := filepath.Join(t.TempDir(), arch+".gguf")
	check(os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600))
	return path
}

func TestUnknownArchitectureIsNamed(t *testing.T) {
	path := handMadeModel(t, "frob", map[string][]int64{"token_embd.weight": {4, 4}})
	for _, args := range [][]string{{"inspect", path}, {"run", "-m", path, "-p", "x", "--les", "off"}} {
		expectFailure(t, exitError, []string{path, "unknown model architecture: 'frob'"}, args...)
	}
}

func TestExpertsAreFoundByNameAndThirdDimension(t *testing.T) {
	path := handMadeModel(t, "frob", map[string][]int64{
		"blk.0.ffn_gate_up_exps.weight": {4, 6, 8},
		"blk.0.ffn_down_exps.weight":    {3, 4, 8},
		"blk.0.ffn_foo_exps.weight":     {4, 4, 8}, // shaped like experts, unknown
		"blk.0.ffn_up_exps.bias":        {3, 8},    // of experts, but stays resident
		"blk.0.ffn_down_shexp.weight":   {3, 4},
		"blk.0.attn_k_b.weight":         {4, 4, 8}, // 8 heads, not experts
	})
	file, err := readModelFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(file.layers) != 1 || file.routedBytes() != 4*(4*6+3*4)*8 || file.expertBytes() != 4*(4*6+3*4) {
		t.Errorf("layers are %+v", file.layers)
	}
	if len(file.unknown) != 1 || file.unknown[0].Name != "blk.0.ffn_foo_exps.weight" || file.unknown[0].Bytes != 4*4*4*8 {
		t.Errorf("unknown tensors are %v", file.unknown)
	}
}

func TestImpossibleCountsAreRefused(t *testing.T) {
	w, err := llama.NewWriter(1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, err := range []error{
		w.SetString("general.architecture", "qwen3moe"), w.SetUint32("qwen3moe.expert_count", 2),
		w.SetUint32("qwen3moe.expert_used_count", 3), w.AddTensor("token_embd.weight", llama.F32, 4),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600); err != nil {
		t.Fatal(err)
	}
	expectFailure(t, exitError, []string{path, "2 experts, 3 used"}, "inspect", path)
}

func TestMissingPartIsNamed(t *testing.T) {
	w, err := llama.NewWriter(1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, err := range []error{
		w.SetString("general.architecture", "qwen3moe"), w.SetUint32("split.count", 2),
		w.SetUint32("split.no", 0), w.AddTensor("token_embd.weight", llama.F32, 4),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	path, missing := filepath.Join(dir, "m-00001-of-00002.gguf"), filepath.Join(dir, "m-00002-of-00002.gguf")
	if err := os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"inspect", path}, {"run", "-m", path, "-p", "x"}} {
		expectFailure(t, exitError, []string{missing, "part 2 of 2 is missing"}, args...)
	}
}
