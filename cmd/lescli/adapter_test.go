package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// expertAdapter writes an adapter of rank 4 for the experts of the first block
// of tiny-qwen3moe, made for that many experts.
func expertAdapter(t *testing.T, experts int64) string {
	t.Helper()
	w, err := llama.NewWriter(8)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const rank, width = 4, 256
	for _, role := range []string{"gate", "down"} {
		name := "blk.0.ffn_" + role + "_exps.weight"
		for _, part := range []struct {
			suffix string
			shape  [2]int64
		}{{".lora_a", [2]int64{width, rank}}, {".lora_b", [2]int64{rank, width}}} {
			if err := w.AddTensor(name+part.suffix, llama.F32, part.shape[0], part.shape[1], experts); err != nil {
				t.Fatal(err)
			}
		}
	}
	return writeAdapter(t, w, rank)
}

// embeddingAdapter writes an adapter of rank 4 for the token embeddings of
// tiny-qwen3moe, whose two matrices change places.
func embeddingAdapter(t *testing.T) string {
	t.Helper()
	w, err := llama.NewWriter(2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const rank, width, vocab = 4, 256, 512
	for suffix, shape := range map[string][2]int64{".lora_a": {rank, vocab}, ".lora_b": {rank, width}} {
		if err := w.AddTensor("token_embd.weight"+suffix, llama.F32, shape[0], shape[1], 1); err != nil {
			t.Fatal(err)
		}
	}
	return writeAdapter(t, w, rank)
}

// writeAdapter writes an adapter of these tensors, filled at random.
func writeAdapter(t *testing.T, w *llama.Writer, alpha float32) string {
	t.Helper()
	for key, value := range map[string]string{
		"general.architecture": "qwen3moe", "general.type": "adapter", "adapter.type": "lora",
	} {
		if err := w.SetString(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SetFloat32("adapter.lora.alpha", alpha); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, w.DataBytes())
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; i+4 <= len(data); i += 4 {
		bits := math.Float32bits(float32(random.NormFloat64() / 16))
		data[i], data[i+1], data[i+2], data[i+3] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, append(w.Meta(), data...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAdapterOnExpertsIsIdentical(t *testing.T) {
	model, adapter := tinyModel(t, "tiny-qwen3moe"), expertAdapter(t, 8)
	stdout, stderr, code := lescli("verify", "-m", model, "--lora", adapter,
		"--les-slots", "floor,1,all", "--prompt-tokens", "1,40", "--gen", "3")
	if code != exitOK || !strings.Contains(stdout, "identical: ") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	if strings.Contains(stdout, "les off") {
		t.Errorf("nothing was streamed: %s", stdout)
	}
}

func TestAdapterOnEmbeddingsIsIdentical(t *testing.T) {
	model, adapter := tinyModel(t, "tiny-qwen3moe"), embeddingAdapter(t)
	stdout, stderr, code := lescli("verify", "-m", model, "--lora", adapter,
		"--les-slots", "floor", "--prompt-tokens", "1,40", "--gen", "3")
	if code != exitOK || !strings.Contains(stdout, "identical: ") || strings.Contains(stdout, "les off") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// An adapter for another number of experts would be read past its end.
func TestAdapterForOtherExpertsIsRefused(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, experts := range []int64{1, 4, 9} {
		adapter := expertAdapter(t, experts)
		_, stderr, code := lescli("run", "-m", model, "--lora", adapter, "--les-slots", "1", "-p", "a", "-n", "1")
		if code != exitError || !strings.Contains(stderr, adapter) || !strings.Contains(stderr, "blk.0.ffn_") {
			t.Errorf("%d experts: exit code %d, %s", experts, code, stderr)
		}
	}
	_, stderr, code := lescli("run", "-m", model, "--lora", "missing.gguf", "--les-slots", "1", "-p", "a", "-n", "1")
	if code != exitError || !strings.Contains(stderr, "missing.gguf") {
		t.Errorf("missing file: exit code %d, %s", code, stderr)
	}
}
