package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchText writes a text that is long enough for short benchmarks.
func benchText(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("for i := range n { sum += i }\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBenchSweepsSlotsOverAText(t *testing.T) {
	model, report := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "bench.json")
	stdout, stderr, code := lescli("bench", "-m", model, "-f", benchText(t), "-n", "16", "-r", "2", "--les-slots", "0,2,all", "--json", report)
	if code != exitOK || !strings.Contains(stdout, "slots/layer") || !strings.Contains(stdout, "previous") {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var sweep benchSweep
	if err := json.Unmarshal(text, &sweep); err != nil || len(sweep.Sweep) != 3 {
		t.Fatalf("%d reports, error %v", len(sweep.Sweep), err)
	}
	for i, r := range sweep.Sweep {
		if want := []int{4, 12, 32}[i]; r.Slots != want || len(r.PerLayer) != 4 || r.PerLayer[0].Lookups != 2*16*2 {
			t.Errorf("%d slots, want %d; layers are %+v", r.Slots, want, r.PerLayer)
		}
		if i > 0 && *r.HitRate < *sweep.Sweep[i-1].HitRate {
			t.Errorf("hit rate falls to %v with more slots", *r.HitRate)
		}
		if *r.Recall != *sweep.Sweep[0].Recall || *r.PreviousOverlap != *sweep.Sweep[0].PreviousOverlap {
			t.Errorf("recall or overlap depend on slots: %+v", r.layerRates)
		}
	}
	if sweep.Sweep[0].PerLayer[0].Recall != nil || sweep.Sweep[0].PerLayer[1].Recall == nil {
		t.Error("the first layer alone has nobody to guess for it")
	}
}

// Layers that are not fused look their experts up once for each projection.
func TestUnfusedLayersAreCountedOnce(t *testing.T) {
	model, report := tinyModel(t, "tiny-gptoss"), filepath.Join(t.TempDir(), "bench.json")
	_, stderr, code := lescli("bench", "-m", model, "-n", "20", "-r", "1", "--les-slots", "floor", "--json", report)
	if code != exitOK {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r benchReport
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.PerLayer[0].Lookups != 20*2 || *r.PreviousOverlap > 0.9 {
		t.Errorf("report is %+v, overlap %v", r.PerLayer, *r.PreviousOverlap)
	}
}

func TestBenchRefusesATextThatIsTooShort(t *testing.T) {
	path := benchText(t)
	expectFailure(t, exitError, []string{path, "fewer than the 50004"}, "bench", "-m", tinyModel(t, "tiny-qwen3moe"), "-f", path, "-n", "10000", "-r", "5")
	expectFailure(t, exitError, []string{"none.txt"}, "bench", "-m", tinyModel(t, "tiny-qwen3moe"), "-f", "none.txt")
	expectFailure(t, exitUsage, []string{"--file and --seed"}, "bench", "-m", "x", "-f", path, "--seed", "2")
	expectFailure(t, exitUsage, []string{"--les-slots", "list"}, "run", "-m", "x", "-p", "y", "--les-slots", "1,2")
}
