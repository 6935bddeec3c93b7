package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

func TestCutOffFileNamesTheTensor(t *testing.T) {
	whole, err := os.ReadFile(tinyModel(t, "tiny-qwen3moe"))
	if err != nil {
		t.Fatal(err)
	}
	const expertBytes = 3 * 256 * 110
	path := filepath.Join(t.TempDir(), "cut.gguf")
	for _, bytes := range []int{1, expertBytes} {
		if err := os.WriteFile(path, whole[:len(whole)-bytes], 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"run", "-p", "x"}, {"bench"}, {"verify"}} {
			expectFailure(t, exitError, []string{path, "is cut off: tensor ", "bytes at offset", "the file has"}, append(args, "-m", path)...)
		}
		expectFailure(t, exitError, []string{path, "is cut off: tensor "}, "inspect", path)
	}
}

// splitModel cuts a model into parts with llama.cpp's own tool, and returns the
// parts in a folder whose name is not ASCII, in which that tool writes nothing on Windows.
func splitModel(t *testing.T, model string) []string {
	t.Helper()
	tool := upstreamTool(t, "llama-gguf-split")
	ascii, dir := t.TempDir(), filepath.Join(t.TempDir(), "Части 模型 é 🙂")
	out, err := exec.Command(tool, "--split", "--split-max-tensors", "6", model, filepath.Join(ascii, "m")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Rename(ascii, dir); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(dir, "m-*.gguf"))
	if err != nil || len(parts) < 4 {
		t.Fatalf("parts are %v, %v", parts, err)
	}
	return parts
}

func TestSplitModelIsStreamedIdentically(t *testing.T) {
	for _, preset := range []string{"tiny-qwen3moe", "tiny-gptoss"} {
		parts := splitModel(t, tinyModel(t, preset))
		stdout, stderr, code := lescli("verify", "-m", parts[0], "--les-slots", "floor,2,all", "--prompt-tokens", "1,40", "--gen", "4")
		if code != exitOK || !strings.Contains(stdout, "identical: ") || !strings.Contains(stdout, "streamed") {
			t.Errorf("%s: exit code %d: %s%s", preset, code, stdout, stderr)
		}
	}
}

func TestDamagedSplitModelsAreRefused(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	parts := splitModel(t, model)
	last := parts[len(parts)-1]
	commands := func(path string) [][]string {
		return [][]string{{"run", "-p", "x", "-m", path}, {"verify", "-m", path}, {"inspect", path}}
	}
	for _, args := range commands(parts[1]) {
		expectFailure(t, exitError, []string{parts[1], "is part 2 of ", "give the first part, " + parts[0]}, args...)
	}
	whole, err := os.ReadFile(last)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string]struct {
		data []byte
		want string
	}{
		"missing":      {nil, "is missing"},
		"cut by one":   {whole[:len(whole)-1], "is cut off: tensor "},
		"not a GGUF":   {[]byte(strings.Repeat("no part ", 99)), "cannot read"},
		"another part": {mustRead(t, parts[1]), "says it is part 2"},
		"whole model":  {mustRead(t, model), "is not a part"},
	}
	for name, d := range damage {
		if err := os.Remove(last); err != nil {
			t.Fatal(err)
		}
		if d.data != nil {
			if err := os.WriteFile(last, d.data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, args := range commands(parts[0]) {
			t.Run(name+"/"+args[0], func(t *testing.T) { expectFailure(t, exitError, []string{last, d.want}, args...) })
		}
		if err := os.WriteFile(last, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// A part of another quantisation has the same names. Types are per tensor, so
// that the mixture is a model of its own: what it computes is the same streamed.
func TestPartOfAnotherQuantisationIsNotMixedUp(t *testing.T) {
	parts := splitModel(t, tinyModel(t, "tiny-qwen3moe"))
	other := filepath.Join(t.TempDir(), "q4.gguf")
	if _, stderr, code := lescli("synth", other, "--preset", "tiny-qwen3moe", "--experts", "q4_k"); code != exitOK {
		t.Fatal(stderr)
	}
	otherParts := splitModel(t, other)
	if len(otherParts) != len(parts) {
		t.Fatalf("%d and %d parts", len(parts), len(otherParts))
	}
	for i := range parts {
		if i%2 == 1 {
			if err := os.WriteFile(parts[i], mustRead(t, otherParts[i]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	stdout, stderr, code := lescli("verify", "-m", parts[0], "--les-slots", "floor,2", "--prompt-tokens", "7", "--gen", "4")
	if code != exitOK || !strings.Contains(stdout, "identical: ") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestBudgetBelowTheFloorNamesBoth(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	_, stderr, code := lescli("run", "-m", model, "-p", "x", "--les-budget", "1M")
	numbers := regexp.MustCompile(`budget of 1048576 bytes is below the floor of \d{7,} bytes`)
	if code != exitError || !strings.Contains(stderr, model) || !numbers.MatchString(stderr) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestSlotsFromNoneToMoreThanThereAre(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	cases := map[string]string{
		"0": "4 expert slots for 32 experts", "9223372036854775807": "32 expert slots for 32 experts", "1000000": "32 expert slots",
	}
	for slots, want := range cases {
		_, stderr, code := lescli("run", "-m", model, "-p", "x", "-n", "3", "--les-slots", slots)
		if code != exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", slots, code, stderr)
		}
	}
	_, stderr, code := lescli("run", "-m", model, "-p", "x", "-n", "3", "--les-budget", "900G")
	if code != exitOK || !strings.Contains(stderr, "32 expert slots for 32 experts") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestAReportDoesNotReplaceAModel(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model.gguf")
	if _, stderr, code := lescli("synth", model, "--preset", "tiny-qwen3moe"); code != exitOK {
		t.Fatal(stderr)
	}
	before := mustRead(t, model)
	for _, flag := range []string{"--json", "--html"} {
		expectFailure(t, exitError, []string{flag, model, "is there and is not a report"}, "bench", "-m", model, "-n", "2", "-r", "1", flag, model)
	}
	expectFailure(t, exitError, []string{"--json", "is there and is not a report"}, "run", "-m", model, "-p", "x", "-n", "2", "--json", model)
	if !bytes.Equal(before, mustRead(t, model)) {
		t.Error("the model has changed")
	}
}

// What stands for a byte that is not UTF-8 in JSON is another name.
func TestBenchRefusesNamesThatItsProcessesCannotBeTold(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	odd := filepath.Join(filepath.Dir(model), "\xff.gguf")
	if err := os.Rename(model, odd); err != nil || runtime.GOOS == "windows" { // whose names are UTF-16
		return // no file can have such a name here
	}
	expectFailure(t, exitError, []string{`\xff.gguf": is not UTF-8`}, "bench", "-m", odd, "-n", "1", "-r", "1", "--sweep", "slots=0,1")
	if _, stderr, code := lescli("bench", "-m", odd, "-n", "1", "-r", "1", "--les-slots", "0"); code != exitOK {
		t.Error(stderr)
	}
}
