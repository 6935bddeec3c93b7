package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/host"
)

func TestLadderAddsOneIdeaARung(t *testing.T) {
	model, other := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "repacked.gguf")
	if _, stderr, code := lescli("repack", model, other); code != exitOK {
		t.Fatal(stderr)
	}
	report, _, _ := bench(t, "-m", model, "-n", "6", "-r", "1", "--warmup", "0", "--ladder", "--les-slots", "2", "--contiguous", other, "--q3k", model)
	want := []string{"1 on demand", "2 + lookahead", "3 + ready-first and lanes", "4 + contiguous", "5 + cache", "6 + Q3_K experts", "all slots"}
	if !slices.Equal(armNames(report), want) {
		t.Fatalf("arms are %q, want %q", armNames(report), want)
	}
	type settings struct {
		lookahead, lanes, slots int
		readyFirst              bool
		model                   string
	}
	for i, want := range []settings{
		{0, 1, 4, false, model}, {1, 1, 4, false, model}, {1, 0, 4, true, model}, {1, 0, 4, true, other},
		{1, 0, 12, true, other}, {1, 0, 12, true, model}, {1, 0, 32, true, model},
	} {
		arm := report.Arms[i]
		if got := (settings{arm.Lookahead, arm.Lanes, arm.Slots, arm.ReadyFirst, arm.Model}); got != want {
			t.Errorf("%s is %+v, want %+v", arm.Name, got, want)
		}
		if arm.Roofline == nil || arm.Roofline.Resident != "all slots" {
			t.Errorf("%s has the roofline %+v", arm.Name, arm.Roofline)
		}
	}
}

func TestLadderRefusesWhatItSetsItself(t *testing.T) {
	for _, args := range [][]string{
		{"--ladder", "--sweep", "lanes=1"}, {"--ladder", "--les-lanes", "2"}, {"--ladder", "--les", "off"}, {"--ladder", "--les-lookahead", "0"},
	} {
		expectFailure(t, exitUsage, []string{"--ladder and --"}, append([]string{"bench", "-m", "x"}, args...)...)
	}
	expectFailure(t, exitUsage, []string{"--contiguous needs --ladder"}, "bench", "-m", "x", "--contiguous", "y")
	expectFailure(t, exitUsage, []string{"--q3k is empty"}, "bench", "-m", "x", "--ladder", "--q3k", "")
}

func TestLadderRefusesOtherModels(t *testing.T) {
	model, other, dense := tinyModel(t, "tiny-qwen3moe"), tinyModel(t, "tiny-gptoss"), tinyModel(t, "tiny-qwen3")
	repacked := filepath.Join(t.TempDir(), "other.gguf")
	if _, stderr, code := lescli("repack", other, repacked); code != exitOK {
		t.Fatal(stderr)
	}
	for _, c := range []struct{ args, parts []string }{
		{[]string{"-m", model, "--ladder", "--contiguous", model}, []string{"--contiguous: " + model, "stock layout"}},
		{[]string{"-m", model, "--ladder", "--contiguous", repacked}, []string{"--contiguous: " + repacked, model, "architecture"}},
		{[]string{"-m", model, "--ladder", "--q3k", other}, []string{"--q3k: " + other, model, "architecture"}},
		{[]string{"-m", dense, "--ladder"}, []string{"--ladder: " + dense, "no routed experts"}},
		{[]string{"-m", dense, "--sweep", "slots=0,1"}, []string{"--sweep slots: " + dense, "no routed experts"}},
	} {
		expectFailure(t, exitError, c.parts, append([]string{"bench", "-n", "1", "-r", "1"}, c.args...)...)
	}
}

func TestDifferenceOfModelsIsNamed(t *testing.T) {
	layer := expertLayer{block: 1, kind: "exps", experts: 8, bytes: 100}
	model := modelFile{
		Counts: host.Counts{Arch: "a", Blocks: 2, Experts: 8, Used: 2, Embedding: 64, ExpertWidth: 32},
		layers: []expertLayer{layer},
	}
	smaller := model
	smaller.totalBytes, smaller.layers = 1, []expertLayer{{block: 1, kind: "exps", experts: 8, bytes: 70, contiguous: true}}
	if got := model.difference(&smaller); got != "" {
		t.Errorf("bytes and layout make another model: %s", got)
	}
	for want, change := range map[string]func(*modelFile){
		"architecture":           func(m *modelFile) { m.Arch = "b" },
		"3 layers":               func(m *modelFile) { m.Blocks = 3 },
		"16 experts, not 8":      func(m *modelFile) { m.Experts = 16 },
		"4 experts a token":      func(m *modelFile) { m.Used = 4 },
		"33 rows an expert":      func(m *modelFile) { m.ExpertWidth = 33 },
		"in block 0":             func(m *modelFile) { m.layers = []expertLayer{{block: 0, kind: "exps", experts: 8}} },
		"0 layers with routed":   func(m *modelFile) { m.layers = nil },
		"65 columns, not 64":     func(m *modelFile) { m.Embedding = 65 },
		"4 exps in block 1, not": func(m *modelFile) { m.layers = []expertLayer{{block: 1, kind: "exps", experts: 4}} },
	} {
		other := model
		change(&other)
		if got := model.difference(&other); !strings.Contains(got, want) {
			t.Errorf("difference is %q, want %q", got, want)
		}
	}
}
