package main

import (
	"path/filepath"
	"slices"
	"testing"
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
