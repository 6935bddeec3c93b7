package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/les-project/les/lesext/probe"
)

// readDiagnosis runs doctor and returns its report.
func readDiagnosis(t *testing.T, path string) (d diagnosis, stdout string) {
	t.Helper()
	report := filepath.Join(t.TempDir(), "doctor.json")
	stdout, stderr, code := lescli("doctor", path, "--seconds", "1", "--json", report)
	if code != exitOK || stderr != "" {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d, stdout
}

func checkSamples(t *testing.T, d diagnosis) {
	t.Helper()
	if len(d.Samples) == 0 || d.Advice.Lanes < 1 || d.Advice.BytesPerSecond <= 0 {
		t.Errorf("%d samples, advice %+v", len(d.Samples), d.Advice)
	}
	for _, s := range d.Samples {
		if s.Reads < 1 || s.BytesPerSecond <= 0 || s.LatencyMedianNS > s.LatencyP95NS {
			t.Errorf("sample %+v", s)
		}
		if s.Direct && d.DirectRefused != "" {
			t.Errorf("a direct sample where direct reads are refused: %s", d.DirectRefused)
		}
	}
}

func TestDoctorOfADirectoryLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	d, stdout := readDiagnosis(t, dir)
	checkSamples(t, d)
	if !d.Temporary || d.FileBytes < probe.FileBytesMin || d.Model != nil || !strings.Contains(stdout, "temporary file") {
		t.Errorf("%+v\n%s", d, stdout)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestInterruptedDoctorLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := diagnose(ctx, dir, time.Second, newProgressLine(io.Discard)); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond) // while it writes or while it reads
	defer stop()
	if _, err := diagnose(ctx, dir, time.Minute, newProgressLine(io.Discard)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// modelForDoctor is a tiny model in a file that is large enough to measure.
func modelForDoctor(t *testing.T) string {
	t.Helper()
	path := tinyModel(t, "tiny-qwen3moe")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, 1<<20)
	for i := range 33 {
		fillRandom(block, uint64(i))
		if _, err := file.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func TestDoctorOfAModelBoundsItsTokens(t *testing.T) {
	path := modelForDoctor(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, stdout := readDiagnosis(t, path)
	checkSamples(t, d)
	if d.Temporary || d.FileBytes != int64(len(before)) {
		t.Errorf("%+v", d)
	}
	if d.Model == nil || d.Model.TokenBytes <= 0 || d.Model.FloorBytes <= 0 || d.Model.Architecture != "qwen3moe" {
		t.Fatalf("model %+v", d.Model)
	}
	bound := d.Advice.BytesPerSecond / float64(d.Model.TokenBytes)
	if d.Advice.TokensBound != bound || !strings.Contains(stdout, "tokens a second") {
		t.Errorf("bound %f, want %f\n%s", d.Advice.TokensBound, bound, stdout)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed, %v", err)
	}
}

func TestDoctorMeasuresAFileThatOnlyLooksLikeAModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken.gguf")
	if err := os.WriteFile(path, append([]byte("GGUF"), make([]byte, probe.FileBytesMin)...), 0o600); err != nil {
		t.Fatal(err)
	}
	d, stdout := readDiagnosis(t, path)
	checkSamples(t, d)
	if d.Model != nil || !strings.Contains(stdout, "problem: ") || !strings.Contains(stdout, path) {
		t.Errorf("%s", stdout)
	}
}

func TestDoctorNamesFilesWithHoles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system does not tell of holes")
	}
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, probe.FileBytesMin); err != nil {
		t.Fatal(err)
	}
	if _, stdout := readDiagnosis(t, path); !strings.Contains(stdout, "has holes") {
		t.Errorf("%s", stdout)
	}
}

func TestDoctorRefusesWhatItCannotMeasure(t *testing.T) {
	dir := t.TempDir()
	small := filepath.Join(dir, "small")
	if err := os.WriteFile(small, make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	expectFailure(t, exitError, []string{"none", noSuchFile}, "doctor", filepath.Join(dir, "none"))
	expectFailure(t, exitError, []string{small, "100 bytes", "too few"}, "doctor", small)
	expectFailure(t, exitError, []string{"/dev/null", "neither a file nor a directory"}, "doctor", "/dev/null")
	expectFailure(t, exitError, []string{"--json"}, "doctor", dir, "--json", dir)
	expectFailure(t, exitUsage, []string{"--seconds: 61"}, "doctor", dir, "--seconds", "61")
	expectFailure(t, exitUsage, []string{"PATH is empty"}, "doctor", "")
	expectFailure(t, exitUsage, []string{`"b"`}, "doctor", "a", "b")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestDoctorSaysWhyAFileCannotBeRead(t *testing.T) {
	if os.Getuid() == 0 || runtime.GOOS == "windows" {
		t.Skip("root may read everything, and so may the owner on Windows")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, make([]byte, probe.FileBytesMin), 0); err != nil {
		t.Fatal(err)
	}
	expectFailure(t, exitError, []string{path, "permission denied"}, "doctor", path)
}

func TestProcessorLimitOfAllGroupsAboveCounts(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "outer", "inner")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(dir, name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(inner, "cpu.max", "max 100000\n")
	if limit, ok := leastProcessors(root, "/outer/inner"); ok {
		t.Errorf("no limit anywhere, but got %f", limit)
	}
	write(filepath.Join(root, "outer"), "cpu.cfs_quota_us", "150000\n")
	write(filepath.Join(root, "outer"), "cpu.cfs_period_us", "100000\n")
	write(root, "cpu.max", "400000 100000\n")
	if limit, ok := leastProcessors(root, "/outer/inner"); !ok || limit != 1.5 {
		t.Errorf("limit is %f, %v", limit, ok)
	}
}
