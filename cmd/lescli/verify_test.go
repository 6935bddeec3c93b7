package main

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVerifyFindsEqualRunsIdentical(t *testing.T) {
	useFake(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, preset := range []string{"tiny-qwen3moe", "tiny-qwen35moe"} {
		stdout, stderr, code := lescli("verify", "-m", tinyModel(t, preset), "--les-slots", "resident,floor,all",
			"--les-lookahead", "0,1", "-t", "1", "-ub", "1,16", "--prompt-tokens", "1,40", "--gen", "3", "--seqs", "2")
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if code != exitOK || len(lines) != 2*2*3*2+1 || !strings.HasPrefix(lines[len(lines)-1], "identical: ") {
			t.Errorf("%s: exit code %d, %s%s", preset, code, stdout, stderr)
		}
	}
	entries, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// Comparing a dense model with itself says nothing of streaming, and is no success of
// what was asked.
func TestVerifyOfADenseModelVerifiesNothing(t *testing.T) {
	model, report := tinyModel(t, "tiny-qwen3"), filepath.Join(t.TempDir(), "report.json")
	expectFailure(t, exitError, []string{model, "there is nothing to verify: architecture qwen3 has no routed experts", "--les-slots resident"},
		"verify", "-m", model, "--les-slots", "resident,floor", "--json", report)
	if _, err := os.Stat(report); err == nil {
		t.Error("there is a report")
	}
	stdout, stderr, code := lescli("verify", "-m", model, "--les-slots", "resident", "--gen", "2")
	if code != exitOK || !strings.HasSuffix(stdout, "in 1 runs; resident runs with each other, nothing was streamed\n") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

// A run with other tokens must be told from the recorded one, at its first
// logit.
func TestVerifyFindsTheFirstDifference(t *testing.T) {
	v := &verifier{
		opts: verifyOptions{
			path: tinyModel(t, "tiny-qwen3moe"), slots: []int{slotsResident}, lookaheads: []int{0},
			shapes: []feedShape{{threads: 1, ubatch: 8, prompt: 4, gen: 2, seqs: 1}}, seed: 1,
		},
		out: io.Discard, line: newProgressLine(io.Discard), log: io.Discard, dir: t.TempDir(),
	}
	if err := v.record(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := v.compareAll(context.Background()); err != nil {
		t.Errorf("same tokens: %v", err)
	}
	v.opts.seed = 2
	var diff *difference
	if err := v.compareAll(context.Background()); !errors.As(err, &diff) {
		t.Fatalf("other tokens: %v", err)
	}
	if diff.position != 0 || diff.sequence != 0 || diff.token != 0 || diff.resident == diff.streamed {
		t.Errorf("difference is %+v", diff)
	}
}

func TestLogitsAreComparedAsBits(t *testing.T) {
	nan, otherNaN := math.Float32frombits(0x7fc00000), math.Float32frombits(0x7fc00001)
	negativeZero := math.Float32frombits(1 << 31)
	for name, c := range map[string]struct {
		a, b []float32
		at   int
		same bool
	}{
		"equal":        {[]float32{1, 2}, []float32{1, 2}, 0, true},
		"last differs": {[]float32{1, 2}, []float32{1, 3}, 1, false},
		"same NaN":     {[]float32{nan}, []float32{nan}, 0, true},
		"other NaN":    {[]float32{0, nan}, []float32{0, otherNaN}, 1, false},
		"signed zero":  {[]float32{0}, []float32{negativeZero}, 0, false},
	} {
		if at, same := sameBits(c.a, c.b); at != c.at || same != c.same {
			t.Errorf("%s: %d, %v", name, at, same)
		}
	}
}

// Wide and narrow steps take turns, so that graphs with and without a use for
// the lookahead follow each other; the recurrent presets have inputs that first
// appear behind MoE layers.
func TestStreamedIsIdenticalInStepsOfAllWidths(t *testing.T) {
	presets := []string{
		"tiny-qwen3moe", "tiny-qwen35moe", "tiny-qwen35moe-merged", "tiny-qwen35moe-nextn", "tiny-deepseek2", "tiny-gptoss", "tiny-qwen3moe-scaled",
	}
	for _, preset := range presets {
		stdout, stderr, code := lescli("verify", "-m", tinyModel(t, preset), "--les-slots", "floor,2,all",
			"--les-lookahead", "0,1", "-ub", "16,512", "--prompt-tokens", "1,7,40", "--gen", "3", "--seqs", "2")
		form := "streamed, fused"
		if preset == "tiny-qwen3moe-scaled" {
			form = "streamed, 3.00 nodes a layer"
		}
		if code != exitOK || !strings.Contains(stdout, form) {
			t.Errorf("%s: exit code %d, want %q: %s%s", preset, code, form, stdout, stderr)
		}
	}
}
