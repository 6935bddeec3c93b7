package synth

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

func TestMain(m *testing.M) {
	llama.Init()
	os.Exit(m.Run())
}

// makeModel writes a preset into a fresh directory.
func makeModel(t *testing.T, name string, opts Options) string {
	t.Helper()
	preset, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".gguf")
	if err := Write(t.Context(), path, preset, opts); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTinyPresetsLoadAndGiveFiniteLogits(t *testing.T) {
	for _, preset := range Presets() {
		if !strings.HasPrefix(preset.Name, "tiny-") || preset.shape.arch == "eagle3" {
			continue // a drafter does not run by itself; the tests of lescli draft with it
		}
		for _, experts := range []llama.TensorType{llama.Q3K, llama.Q4K} {
			t.Run(preset.Name+"/"+experts.String(), func(t *testing.T) {
				checkLogits(t, makeModel(t, preset.Name, Options{ExpertType: experts, Seed: 1}))
			})
		}
	}
}

func checkLogits(t *testing.T, path string) {
	model, err := llama.LoadModel(path, llama.ModelParams{CheckTensors: true})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: 64, Batch: 16, Ubatch: 16, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer lctx.Close()
	batch := llama.NewBatch(16)
	defer batch.Close()
	for pos := range 16 {
		batch.Add(llama.Token(17*pos), pos, 0, true)
	}
	if err := lctx.Decode(batch); err != nil {
		t.Fatal(err)
	}
	for pos := range 16 {
		logits, err := lctx.Logits(pos)
		if err != nil {
			t.Fatal(err)
		}
		least, most := math.Inf(1), math.Inf(-1)
		for _, logit := range logits {
			if math.IsNaN(float64(logit)) || math.IsInf(float64(logit), 0) {
				t.Fatalf("position %d has logit %g", pos, logit)
			}
			least, most = min(least, float64(logit)), max(most, float64(logit))
		}
		if most-least < 0.1 {
			t.Errorf("position %d: all logits between %g and %g", pos, least, most)
		}
	}
}

func TestBytesDependOnSeedAlone(t *testing.T) {
	sum := func(seed uint64) [32]byte {
		data, err := os.ReadFile(makeModel(t, "tiny-qwen35moe", Options{ExpertType: llama.Q3K, Seed: seed}))
		if err != nil {
			t.Fatal(err)
		}
		return sha256.Sum256(data)
	}
	first := sum(1)
	if sum(2) == first {
		t.Error("two seeds give the same file")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if sum(1) != first {
		t.Error("the same seed gives another file on one processor")
	}
}

func TestVocabularyTokenisesAnyText(t *testing.T) {
	model, err := llama.LoadModel(makeModel(t, "tiny-qwen3moe", Options{ExpertType: llama.Q3K}), llama.ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	const text = "the Reineke 日本 é\n\t\x01"
	tokens, err := model.Tokenize(text, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := model.Detokenize(tokens); got != text {
		t.Errorf("%q comes back as %q", text, got)
	}
}

func TestVocabularyHasNoDoubles(t *testing.T) {
	tokens, types, _ := vocabulary(20000)
	if len(tokens) != 20000 || len(types) != len(tokens) {
		t.Fatalf("%d tokens, %d types", len(tokens), len(types))
	}
	seen := map[string]bool{}
	for _, token := range tokens {
		if seen[token] {
			t.Fatalf("%q is there twice", token)
		}
		seen[token] = true
	}
}

// half decodes half precision.
func half(bits uint16) float64 {
	exponent, mantissa := int(bits>>10&31), float64(bits&1023)
	if exponent == 0 {
		return math.Ldexp(mantissa, -24)
	}
	return math.Ldexp(1024+mantissa, exponent-25)
}

func TestHalfIsWithinOneStep(t *testing.T) {
	for _, x := range []float64{1, 0.5, 1.999, stdMatrix / spreadQ3K, stdMatrix / spreadQ6K, 6.2e-5, 6.0e-8, 1000} {
		var buf [2]byte
		putHalf(buf[:], x)
		got := half(binary.LittleEndian.Uint16(buf[:]))
		if got > x || x-got > max(x/1024, 6e-8) {
			t.Errorf("%g became %g", x, got)
		}
	}
}

func TestFailureLeavesNothingBehind(t *testing.T) {
	preset, err := Find("tiny-qwen3moe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "inside"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{taken, filepath.Join(dir, "none", "model.gguf")} {
		if err := Write(t.Context(), path, preset, Options{ExpertType: llama.Q3K}); err == nil {
			t.Errorf("%s: written", path)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBigPresetHasTheShapeItIsNamedFor(t *testing.T) {
	s := a3b
	s.expertType = llama.Q3K
	p := newPlan(s)
	var expert, total int64
	for _, tensor := range p.tensors {
		elements := int64(1)
		for _, n := range tensor.shape {
			elements *= n
		}
		bytes := elements / tensor.dtype.BlockElements() * tensor.dtype.BlockBytes()
		total += bytes
		if strings.HasPrefix(tensor.name, "blk.0.") && strings.Contains(tensor.name, "_exps.") {
			expert += bytes / s.experts
		}
	}
	if expert != 1351680 {
		t.Errorf("an expert has %d bytes", expert)
	}
	if total < 15e9 || total > 16e9 {
		t.Errorf("all tensors have %d bytes", total)
	}
}

func TestStoppedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	preset, err := Find("tiny-qwen3moe")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	err = Write(ctx, filepath.Join(dir, "m.gguf"), preset, Options{ExpertType: llama.Q3K, Progress: func(int64, int64) { stop() }})
	entries, _ := os.ReadDir(dir)
	if !errors.Is(err, context.Canceled) || len(entries) != 0 {
		t.Errorf("error %v, left %v", err, entries)
	}
}
