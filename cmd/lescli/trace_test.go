package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorded records a tiny model and returns the file.
func recorded(t *testing.T, preset string, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "routes.trace")
	args = append([]string{"trace", "-m", tinyModel(t, preset), "-o", out, "--les-slots", "all"}, args...)
	if stdout, stderr, code := lescli(args...); code != exitOK || !strings.Contains(stdout, out+": ") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	return out
}

func TestTraceHasEachStepOfEachLayer(t *testing.T) {
	cases := map[string]struct {
		preset               string
		args                 []string
		tokens, sets, layers int
	}{
		"random":         {"tiny-qwen3moe", []string{"-n", "20"}, 20, 20 * 4, 4},
		"text":           {"tiny-qwen3moe", []string{"-f", benchText(t), "-n", "30"}, 30, 30 * 4, 4},
		"several":        {"tiny-qwen3moe", []string{"-n", "20", "--step", "6", "-c", "16"}, 20, 4 * 4, 4}, // steps of 6, 6, 4 and 4
		"not fused":      {"tiny-qwen3moe-scaled", []string{"-n", "9"}, 9, 9 * 4, 4},
		"leading dense":  {"tiny-deepseek2", []string{"-n", "9"}, 9, 9 * 3, 3},
		"text of prompt": {"tiny-qwen3moe", []string{"-p", "Hello there, what is it?", "-n", "5"}, 5, 5 * 4, 4},
	}
	for name, c := range cases {
		rec, err := readRecording(recorded(t, c.preset, c.args...))
		if err != nil {
			t.Fatal(err)
		}
		routed, guessed := 0, 0
		for _, s := range rec.Sets {
			if s.Guessed {
				guessed++
			} else {
				routed++
			}
		}
		if rec.Tokens() != c.tokens || routed != c.sets || len(rec.Layers) != c.layers || guessed == 0 || rec.Layers[0].Bytes() == 0 {
			t.Errorf("%s: %d tokens, %d routed and %d guessed sets of %d layers, want %+v", name, rec.Tokens(), routed, guessed, len(rec.Layers), c)
		}
	}
}

func TestReplayOfARecordingAgreesWithTheEngine(t *testing.T) {
	model, dir := tinyModel(t, "tiny-qwen3moe"), t.TempDir()
	routes, measured, replayed := filepath.Join(dir, "r"), filepath.Join(dir, "bench.json"), filepath.Join(dir, "replay.json")
	for _, args := range [][]string{
		{"trace", "-m", model, "-n", "64", "-o", routes},
		{"bench", "-m", model, "-n", "64", "-r", "1", "--warmup", "0", "--les-slots", "2", "--les-lookahead", "0", "--json", measured},
		{"replay", routes, "--slots", "2", "--policy", "lfru,opt", "--skip", "0", "--shares", "--bandwidth", "1G", "--json", replayed},
	} {
		if stdout, stderr, code := lescli(args...); code != exitOK {
			t.Fatalf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
	var report benchReport
	var replay replayReport
	if err := errors.Join(json.Unmarshal(mustRead(t, measured), &report), json.Unmarshal(mustRead(t, replayed), &replay)); err != nil {
		t.Fatal(err)
	}
	if len(replay.Counts) != 2 || len(replay.Runs) != 4 {
		t.Fatalf("report is %+v", replay)
	}
	bench := report.Arms[0]
	// The order in which the engine gives experts back depends on threads.
	if lfru, opt := replay.Counts[0], replay.Counts[1]; lfru.Slots != bench.Slots || lfru.HitRate < *bench.HitRate-0.03 || lfru.HitRate > *bench.HitRate+0.03 || opt.HitRate < lfru.HitRate {
		t.Errorf("replayed %+v and %+v, measured %v with %d slots", lfru, opt, *bench.HitRate, bench.Slots)
	}
	for _, run := range replay.Runs {
		if run.TPS <= 0 || run.TPS > run.AllHitsTPS*1.0001 {
			t.Errorf("run %+v", run)
		}
	}
}

func TestTraceAndReplayRefuseWhatTheyCannotDo(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte("not a recording"), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	usage := map[string][]string{
		"--out (-o) is missing":    {"trace", "-m", "x"},
		"--seed contradicts":       {"trace", "-m", "x", "-o", out, "-p", "y", "--seed", "3"},
		"--step: 9":                {"trace", "-m", "x", "-o", out, "--step", "9", "-c", "8"},
		"--les off":                {"trace", "-m", "x", "-o", out, "--les", "off"},
		"is a list":                {"trace", "-m", "x", "-o", out, "--les-slots", "1,2"},
		"FILE is missing":          {"replay"},
		`"mru"`:                    {"replay", text, "--policy", "mru"},
		"--skip: -1":               {"replay", text, "--skip", "-1"},
		"--lanes is of no use":     {"replay", text, "--lanes", "3"},
		"0 lanes":                  {"replay", text, "--bandwidth", "1G", "--lanes", "0"},
		`--slots: "many"`:          {"replay", text, "--slots", "many"},
		"--guesses: -1":            {"replay", text, "--bandwidth", "1G", "--guesses", "-1"},
		"--bandwidth: \"fast\"":    {"replay", text, "--bandwidth", "fast"},
		"compute time of -1ns":     {"replay", text, "--bandwidth", "1G", "--compute", "-1ns"},
		"--latency: 1h0m0.001s is": {"replay", text, "--bandwidth", "1G", "--latency", "3600.001s"},
		"--compute: 2000000h0m0s":  {"replay", text, "--bandwidth", "1G", "--compute", "2000000h"},
		"lescli: -n: 0 must be":    {"trace", "-m", "x", "-o", out, "-n", "0"},
	}
	for want, args := range usage {
		expectFailure(t, exitUsage, []string{want}, args...)
	}
	model := tinyModel(t, "tiny-qwen3moe")
	expectFailure(t, exitError, []string{text, "not a recording of routes", "at byte"}, "replay", text)
	expectFailure(t, exitError, []string{"none", noSuchFile}, "replay", filepath.Join(dir, "none"))
	expectFailure(t, exitError, []string{"--out", text, "is there and is not a recording"}, "trace", "-m", model, "-o", text)
	expectFailure(t, exitError, []string{"--out", model, "is there and is not a recording"}, "trace", "-m", model, "-o", model)
	expectFailure(t, exitError, []string{"--out", noSuchFile}, "trace", "-m", model, "-o", filepath.Join(dir, "none", "x"))
	expectFailure(t, exitError, []string{"no routes to record"}, "trace", "-m", tinyModel(t, "tiny-qwen3"), "-o", out)
	expectFailure(t, exitError, []string{"has 2 tokens, --skip 2"}, "replay", recorded(t, "tiny-qwen3moe", "-n", "2"), "--skip", "2")
	expectFailure(t, exitError, []string{"fewer than the 99 of -n"}, "trace", "-m", model, "-o", out, "-p", "Hi", "-n", "99")
	expectFailure(t, exitError, []string{"not a recording"}, "replay", text, "--bandwidth", "1G", "--latency", "1h", "--compute", "1h")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
