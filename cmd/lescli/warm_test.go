package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/expert"
)

// warmRun runs a prompt with a warm file and returns the report and what was said.
func warmRun(t *testing.T, model, warmFile string, args ...string) (summary, string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "run.json")
	args = append([]string{"run", "-m", model, "-p", "Hello", "-n", "12", "--les-warm", warmFile, "--json", report}, args...)
	_, stderr, code := lescli(args...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	var s summary
	if err := json.Unmarshal(mustRead(t, report), &s); err != nil {
		t.Fatal(err)
	}
	return s, stderr
}

func TestSecondRunIsWarmAndSaysTheSame(t *testing.T) {
	model, warmFile := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "warm")
	cold, stderr := warmRun(t, model, warmFile, "--les-slots", "2")
	if cold.WarmExperts != 0 || strings.Contains(stderr, "warm") {
		t.Errorf("first run: %d experts, %s", cold.WarmExperts, stderr)
	}
	size := len(mustRead(t, warmFile))
	warmed, stderr := warmRun(t, model, warmFile, "--les-slots", "2")
	if warmed.WarmExperts == 0 || warmed.WarmExperts > int64(warmed.Slots) || warmed.WarmBytes == 0 || !strings.Contains(stderr, "warm: ") {
		t.Errorf("second run: %d experts, %d bytes: %s", warmed.WarmExperts, warmed.WarmBytes, stderr)
	}
	want, _, _ := lescli("run", "-m", model, "-p", "Hello", "-n", "12", "--les", "off")
	got, _, code := lescli("run", "-m", model, "-p", "Hello", "-n", "12", "--les-warm", warmFile)
	if code != exitOK || got != want {
		t.Errorf("exit code %d, %q warm, %q without", code, got, want)
	}
	if again := len(mustRead(t, warmFile)); again > 2*size {
		t.Errorf("the file grew from %d to %d bytes", size, again)
	}
}

func TestFewSlotsAreWarmedWithTheHottest(t *testing.T) {
	model, warmFile := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "warm")
	warmRun(t, model, warmFile, "--les-slots", "all")
	if s, _ := warmRun(t, model, warmFile, "--les-slots", "floor"); s.WarmExperts > int64(s.Slots) {
		t.Errorf("%d experts in %d slots", s.WarmExperts, s.Slots)
	}
}

func TestWarmFileOfAnotherModelIsIgnoredInOneLine(t *testing.T) {
	one, warmFile := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "warm")
	other := filepath.Join(t.TempDir(), "other.gguf")
	if _, stderr, code := lescli("synth", other, "--preset", "tiny-qwen3moe", "--seed", "2"); code != exitOK {
		t.Fatal(stderr)
	}
	warmRun(t, one, warmFile, "--les-slots", "2")
	s, stderr := warmRun(t, other, warmFile, "--les-slots", "2")
	if s.WarmExperts != 0 || strings.Count(stderr, warmFile) != 1 || !strings.Contains(stderr, "of another model") {
		t.Errorf("%d experts: %s", s.WarmExperts, stderr)
	}
	if _, stderr = warmRun(t, other, warmFile, "--les-slots", "2"); strings.Contains(stderr, "ignored") {
		t.Errorf("the file was not replaced: %s", stderr)
	}
	if err := os.Truncate(warmFile, 60); err != nil {
		t.Fatal(err)
	}
	if _, stderr = warmRun(t, other, warmFile, "--les-slots", "2"); !strings.Contains(stderr, warmFile+" is ignored") {
		t.Errorf("a damaged file: %s", stderr)
	}
}

func TestBenchIsWarmToo(t *testing.T) {
	model, dir := tinyModel(t, "tiny-qwen3moe"), t.TempDir()
	warmFile, report := filepath.Join(dir, "warm"), filepath.Join(dir, "report")
	for range 2 {
		_, stderr, code := lescli("bench", "-m", model, "-n", "8", "-r", "1", "--les-slots", "2", "--les-warm", warmFile, "--json", report)
		if code != exitOK {
			t.Fatal(stderr)
		}
	}
	if text := string(mustRead(t, report)); !strings.Contains(text, `"warm_experts": `) || strings.Contains(text, `"warm_experts": 0`) {
		t.Errorf("the second run was not warm: %s", text)
	}
}

func TestAWarmFileDoesNotKeepTheOtherExpertsAway(t *testing.T) {
	model, warmFile := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "warm")
	for range 2 {
		if s, _ := warmRun(t, model, warmFile, "--les-slots", "all", "-n", "40"); s.WarmExperts == 0 {
			t.Error("nothing was read in the background")
		}
	}
}

func TestWarmFileIsCheckedBeforeTheWork(t *testing.T) {
	model, dir := tinyModel(t, "tiny-qwen3moe"), t.TempDir()
	run := func(args ...string) []string {
		return append([]string{"run", "-m", model, "-p", "x", "-n", "2"}, args...)
	}
	expectFailure(t, exitUsage, []string{"--les off and --les-warm contradict"}, run("--les", "off", "--les-warm", "x")...)
	expectFailure(t, exitUsage, []string{"--les-warm is empty"}, run("--les-warm", "")...)
	expectFailure(t, exitUsage, []string{"--les-warm and several arms"}, "bench", "-m", model, "--sweep", "slots=1,2", "--les-warm", "x")
	expectFailure(t, exitError, []string{"--les-warm", model, "is there and is not a warm file"}, run("--les-warm", model)...)
	expectFailure(t, exitError, []string{"--les-warm", noSuchFile}, run("--les-warm", filepath.Join(dir, "none", "x"))...)
	expectFailure(t, exitError, []string{"--les-warm", "not a regular file"}, run("--les-warm", dir)...)
	long := filepath.Join(dir, strings.Repeat("x", 255)) // has no room for a temporary name
	_, stderr, code := lescli(run("--les-warm", long)...)
	if code != exitError || !strings.Contains(stderr, "--les-warm") || strings.Contains(stderr, "decode: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestFailedRunKeepsTheWarmFile breaks every read of the second run.
func TestFailedRunKeepsTheWarmFile(t *testing.T) {
	model, warmFile := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "warm")
	warmRun(t, model, warmFile)
	before := string(mustRead(t, warmFile))
	useFaults(t, func(expert.Extent) error { return errors.New("broken device") })
	expectFailure(t, exitError, []string{"broken device"}, "run", "-m", model, "-p", "x", "--les-warm", warmFile, "--temp", "0")
	if string(mustRead(t, warmFile)) != before {
		t.Error("the file has changed")
	}
}

func TestASlotForEveryExpertIsFilledInTheBackground(t *testing.T) {
	model, report := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "report")
	if _, stderr, code := lescli("run", "-m", model, "-p", "Hello", "-n", "40", "--les-slots", "all", "--json", report); code != exitOK {
		t.Fatal(stderr)
	}
	var s summary
	if err := json.Unmarshal(mustRead(t, report), &s); err != nil {
		t.Fatal(err)
	}
	if s.WarmExperts == 0 || s.WarmExperts > int64(s.Slots) {
		t.Errorf("%d experts were read in the background, for %d slots", s.WarmExperts, s.Slots)
	}
}
