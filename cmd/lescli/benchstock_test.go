package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

// fakeStock writes a program that stands in for llama-bench.
func fakeStock(t *testing.T, body string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a script stands in for llama-bench, which this system does not run")
	}
	path := filepath.Join(t.TempDir(), "llama-bench")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestStockArmsRunInTurnWithOurs(t *testing.T) {
	stock := fakeStock(t, `echo "$@" >>"$0.log"; echo '[{"n_prompt": 8, "n_gen": 0, "avg_ts": 80.5}, {"n_prompt": 0, "n_gen": 2, "avg_ts": 4.5}]'`)
	report, _, _ := bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-n", "4", "-p", "8", "-r", "2", "--les-slots", "1",
		"--stock", stock, "--stock-load", "mmap,none", "--stock-n", "2")
	if want := []string{"slots 1", "llama-bench mmap, prompt 8", "llama-bench none, prompt 8"}; !slices.Equal(armNames(report), want) {
		t.Fatalf("arms are %q, want %q", armNames(report), want)
	}
	for _, arm := range report.Arms[1:] {
		if arm.Decode.Median != 4.5 || arm.Prefill.Median != 80.5 || len(arm.Decode.Samples) != 2 || arm.DecodeTokens != 2 || arm.Cost != nil {
			t.Errorf("%s is %+v", arm.Name, arm)
		}
	}
	calls, err := os.ReadFile(stock + ".log")
	want := ""
	for range 2 {
		for _, load := range []string{"mmap", "none"} {
			want += fmt.Sprintf("-m %s -lm %s -t %d -ub 512 -b 512 -p 8 -n 2 -r 1 -o json\n", report.Arms[0].Model, load, report.Arms[0].Threads)
		}
	}
	if err != nil || string(calls) != want {
		t.Errorf("calls are\n%s, want\n%s, error %v", calls, want, err)
	}
}

func TestStockThatFailsIsExplained(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for body, want := range map[string]string{
		"echo cannot load >&2; exit 3": "cannot load",
		"echo no JSON":                 "the report of llama-bench",
		"echo []":                      "has no tests",
		`echo '[{"n_gen": 4}]'`:        "a speed of 0",
	} {
		expectFailure(t, exitError, []string{`arm "llama-bench mmap"`, want}, "bench", "-m", model, "-n", "4", "-r", "1", "--les-slots", "1", "--stock", fakeStock(t, body))
	}
}
