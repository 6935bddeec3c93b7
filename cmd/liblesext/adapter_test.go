package main

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// expertAdapter writes a LoRA adapter of rank 4 for the experts of the first block of
// tiny-qwen3moe, filled at random.
func expertAdapter(t *testing.T) string {
	t.Helper()
	w, err := llama.NewWriter(8)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	const rank, width, experts = 4, 256, 8
	for key, value := range map[string]string{"general.architecture": "qwen3moe", "general.type": "adapter", "adapter.type": "lora"} {
		if err := w.SetString(key, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.SetFloat32("adapter.lora.alpha", 4*rank); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"blk.0.ffn_gate_exps.weight", "blk.0.ffn_down_exps.weight"} {
		for suffix, shape := range map[string][2]int64{".lora_a": {width, rank}, ".lora_b": {rank, width}} {
			if err := w.AddTensor(name+suffix, llama.F32, shape[0], shape[1], experts); err != nil {
				t.Fatal(err)
			}
		}
	}
	data := make([]byte, 0, w.DataBytes())
	random := rand.New(rand.NewPCG(1, 2))
	for range w.DataBytes() / 4 {
		bits := math.Float32bits(float32(random.NormFloat64() / 8))
		data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, append(w.Meta(), data...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// scaleAdapter changes what an adapter counts for, while the server runs.
func scaleAdapter(t *testing.T, s *server, scale float64) {
	t.Helper()
	body, _ := json.Marshal([]map[string]any{{"id": 0, "scale": scale}})
	if status, answer := s.send(t, "/lora-adapters", string(body)); status != http.StatusOK {
		t.Fatalf("%s: %d %s", body, status, answer)
	}
}

func TestAnswersWithAdaptersAreThoseOfResidentExperts(t *testing.T) {
	compare(t, func(s *server) (answers []string) {
		answer := func(fields map[string]any) {
			fields["prompt"], fields["n_predict"] = "a b c d e f g h", 8
			text, _ := continued(t, s, fields)
			answers = append(answers, text)
		}
		answer(map[string]any{}) // as --lora has it: a scale of 1
		for _, scale := range []float64{0.5, 0} {
			scaleAdapter(t, s, scale)
			answer(map[string]any{})
		}
		answer(map[string]any{"lora": []map[string]any{{"id": 0, "scale": 1.0}}}) // of this request alone
		if answers[0] != answers[3] || answers[0] == answers[1] || answers[1] == answers[2] || answers[0] == answers[2] {
			t.Errorf("%s: scales of 1, 0.5, 0 and 1 again: %q", s.variable, answers)
		}
		return answers
	}, "-m", synth(t, "tiny-qwen3moe"), "--lora", expertAdapter(t), "-c", "256", "-np", "1", "--no-cache-prompt")
}
