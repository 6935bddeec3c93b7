package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/predict"
	"github.com/les-project/les/lesext/sched"
)

// fakeStreaming stands in for the engine: the model stays resident, and the
// counters are made up.
type fakeStreaming struct {
	enabled bool
	enabler func() // is told of Enable, which comes before the weights are read
	loads   int    // Open calls while enabled
	config  engineConfig
	openErr error
}

func (f *fakeStreaming) Enable() error {
	if f.enabler != nil {
		f.enabler()
	}
	f.enabled = true
	return nil
}

func (f *fakeStreaming) Disable() { f.enabled = false }

func (f *fakeStreaming) Loaded(*modelFile, bool) error { return nil }

func (f *fakeStreaming) Open(_ *llama.Context, config engineConfig) (engine, error) {
	if f.enabled {
		f.loads++
	}
	f.config = config
	return fakeEngine{config}, f.openErr
}

type fakeEngine struct{ config engineConfig }

func (f fakeEngine) Plan() enginePlan {
	return enginePlan{Plan: plan.Plan{
		Shape:     plan.Shape{Layers: 4, Experts: 8, Used: 2, All: 32},
		SlotCount: 4 + 4*f.config.Slots, Budget: f.config.BudgetBytes, Total: 1000,
	}}
}

func (fakeEngine) Stats() engineStats {
	layer := sched.LayerStats{
		LayerStats:  predict.LayerStats{Guessed: 100, RoutedGuessed: 50, Right: 25, RoutedAgain: 10, Repeated: 4},
		LookupStats: sched.LookupStats{Lookups: 100, Hits: 60, Joins: 25, Misses: 15},
	}
	return engineStats{Layers: []layerStats{{3, layer}}, BytesDemand: 1000, BytesPrefetch: 600, StallNS: 8e6}
}

func (fakeEngine) SetSlots(int) error        { return nil }
func (fakeEngine) ResetStats()               {}
func (fakeEngine) WaitPopulated()            {}
func (fakeEngine) Geometry() expert.Geometry { return expert.Geometry{} }
func (fakeEngine) Warm([]expert.Key)         {}
func (fakeEngine) Idle() bool                { return true }
func (fakeEngine) Hot(int) []sched.Use       { return nil }
func (fakeEngine) Err() error                { return nil }
func (fakeEngine) Close()                    {}

func useFake(t *testing.T) *fakeStreaming {
	fake, before := &fakeStreaming{}, streaming
	streaming = fake
	t.Cleanup(func() { streaming = before })
	return fake
}

func TestRunWritesTheSummary(t *testing.T) {
	fake := useFake(t)
	model := tinyModel(t, "tiny-qwen3moe")
	report := filepath.Join(t.TempDir(), "report.json")
	stdout, stderr, code := lescli("run", "-m", model, "-p", "Hello", "-n", "9", "--seed", "3",
		"--les-slots", "4", "--les-lookahead", "0", "--json", report)
	if code != exitOK || len(stdout) < 9 {
		t.Fatalf("exit code %d, %q, %s", code, stdout, stderr)
	}
	if fake.loads != 1 || fake.enabled || fake.config.Slots != 4 || fake.config.Lookahead != 0 {
		t.Errorf("engine was opened as %+v", fake)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"model": model, "architecture": "qwen3moe", "stop": stopLimit, "prompt_tokens": 5.0, "generated_tokens": 9.0,
		"les": "on", "slots": 20.0, "slots_per_layer": 4.0, "floor_slots": 4.0, "streamed_layers": 4.0, "budget_bytes": 0.0, "hit_rate": 0.6, "join_rate": 0.25, "miss_rate": 0.15,
		"recall": 0.5, "precision": 0.25, "previous_overlap": 0.4, "bytes_per_token": 200.0, "stall_ms_per_token": 1.0,
	} {
		if fields[name] != want {
			t.Errorf("%s is %v, want %v", name, fields[name], want)
		}
	}
	for _, name := range []string{"decode_tps", "prefill_tps", "peak_rss_bytes", "load_seconds", "first_seconds"} {
		if number, ok := fields[name].(float64); !ok || number <= 0 {
			t.Errorf("%s is %v", name, fields[name])
		}
	}
}

func TestStreamingIsPlannedFromMemoryWhenNothingIsAsked(t *testing.T) {
	fake := useFake(t)
	_, stderr, code := lescli("run", "-m", tinyModel(t, "tiny-qwen3moe"), "-p", "Hello", "-n", "1")
	if code != exitOK || fake.config.Slots != slotsFromBudget || fake.config.BudgetBytes <= 0 || fake.config.Lookahead != 1 {
		t.Errorf("exit code %d, opened as %+v: %s", code, fake.config, stderr)
	}
	if !strings.Contains(stderr, "les on (auto: ") {
		t.Errorf("nothing says that streaming is on: %s", stderr)
	}
}

func TestDenseModelRunsAndSaysWhyNothingIsStreamed(t *testing.T) {
	useFake(t)
	_, stderr, code := lescli("run", "-m", tinyModel(t, "tiny-qwen3"), "-p", "Hello", "-n", "2", "--les-slots", "2")
	if code != exitOK || !strings.Contains(stderr, "les off: architecture qwen3 has no routed experts") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestEngineThatCannotOpenIsNamed(t *testing.T) {
	fake := useFake(t)
	fake.openErr = errors.New("the budget is below the floor")
	model := tinyModel(t, "tiny-qwen3moe")
	expectFailure(t, exitError, []string{model, "below the floor"}, "run", "-m", model, "-p", "x", "--les-budget", "1M")
}

func TestPromptThatDoesNotFitIsRefused(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	expectFailure(t, exitError, []string{"a context of 256 (--ctx, -c) leaves no room"}, "run", "-m", model, "-c", "256", "--les", "off", "-p", strings.Repeat("zz ", 300))
}

// What the vocabulary and the metadata tell is not said only after half a minute.
func TestTextsAreRefusedBeforeTheWeightsAreRead(t *testing.T) {
	useFake(t).enabler = func() { t.Error("the weights are read") }
	model, dir := tinyModel(t, "tiny-qwen3moe"), t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Another key of the same length stands where the template was.
	untold := strings.Replace(string(mustRead(t, model)), "tokenizer.chat_template", "tokenizer.chat_untolded", 1)
	short, out := file("short.txt", "a few words"), filepath.Join(dir, "out")
	run := func(args ...string) []string { return append([]string{"run", "-m", model}, args...) }
	for want, args := range map[string][]string{
		"leaves no room":        run("-c", "256", "-p", strings.Repeat("zz ", 300)),
		"prompt is empty":       run("-p", ""),
		"grammar is refused":    run("-p", "x", "--grammar-file", file("bad.gbnf", "root ::= (\n")),
		"grammar is refused: f": run("-p", "x", "--grammar-file", file("token.gbnf", "root ::= <nothing>\n")),
		"no chat template":      {"run", "-m", file("untold.gguf", untold), "-p", "x", "--chat"},
		"--lora: ":              run("-p", "x", "--lora", short),
		"two chunks":            {"imatrix", "-m", model, "-f", short, "-o", out},
		"fewer than the 100":    {"trace", "-m", model, "-f", short, "-n", "100", "-o", out},
		"--warmup":              {"bench", "-m", model, "-f", short},
	} {
		expectFailure(t, exitError, []string{want}, args...)
	}
}

func TestReportThatCannotBeWrittenIsRefusedFirst(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{dir, filepath.Join(dir, "none", "report.json")} {
		expectFailure(t, exitError, []string{"--json", name[:len(dir)]}, "run", "-m", "none.gguf", "-p", "x", "--json", name)
		expectFailure(t, exitError, []string{"--json", name[:len(dir)]}, "bench", "-m", "none.gguf", "--json", name)
	}
}

func TestVerbosePrintsTheLog(t *testing.T) {
	_, stderr, code := lescli("inspect", "-v", tinyModel(t, "tiny-qwen3"))
	if code != exitOK || !strings.Contains(stderr, "n_embd") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestChatPutsThePromptIntoTheTemplate(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	_, stderr, code := lescli("run", "-m", tinyModel(t, "tiny-qwen3moe"), "--les", "off", "--chat", "-p", "Q", "-n", "1", "--json", report)
	if code != exitOK {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var fields summary
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	// <|im_start|> u s er \n Q <|im_end|> \n <|im_start|> a s s i s t an t \n
	if fields.PromptTokens != 18 {
		t.Errorf("the prompt has %d tokens", fields.PromptTokens)
	}
}

func TestBenchReportsSpreadAndCounters(t *testing.T) {
	useFake(t)
	report, stdout, _ := bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-p", "20", "-ub", "8", "-n", "4", "-r", "3", "--les-slots", "all")
	if !strings.Contains(stdout, "3 samples") {
		t.Errorf("%q", stdout)
	}
	if arm := report.Arms[0]; arm.SlotsPerLayer != 8 || len(arm.Decode.Samples) != 3 || arm.Decode.Min > arm.Decode.Median ||
		arm.Decode.Median > arm.Decode.Max || arm.Prefill.Median <= 0 || *arm.HitRate != 0.6 {
		t.Errorf("report is %+v", arm)
	}
}
