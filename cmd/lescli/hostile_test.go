//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// llama.cpp's tokenizer throws at sequences beyond the last code point.
func TestPromptThatIsNotUTF8IsRefused(t *testing.T) {
	prompt := filepath.Join(t.TempDir(), "prompt")
	for _, text := range []string{"\xf7\xbf\xbf\xbf", "a\xf5\x80\x80\x80b", "\xff", "ab\xed\xa0\x80"} {
		if err := os.WriteFile(prompt, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		// No model is looked for before.
		expectFailure(t, exitError, []string{"--file (-f): " + prompt, "not UTF-8 at byte"}, "run", "-m", "absent.gguf", "-f", prompt, "-n", "1")
		expectFailure(t, exitError, []string{"--prompt (-p): ", "not UTF-8 at byte"}, "trace", "-m", "absent.gguf", "-p", text, "-o", prompt+".trace")
	}
}

func TestEmptyPromptIsRefusedBeforeThePlan(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, args := range [][]string{{"run"}, {"trace", "-o", filepath.Join(t.TempDir(), "out")}} {
		_, stderr, code := lescli(append(args, "-m", model, "-p", "")...)
		if code != exitError || stderr != "lescli: "+errEmptyPrompt.Error()+"\n" {
			t.Errorf("%s: exit code %d: %s", args[0], code, stderr)
		}
	}
}

func TestModelThatIsAPipeIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.gguf")
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	expectFailure(t, exitError, []string{pipe, "not a regular file"}, "run", "-m", pipe, "-p", "x", "-n", "1")
	expectFailure(t, exitError, []string{pipe, "not a regular file"}, "inspect", pipe)
}

// A name that is empty names nothing, and is told of before any work is done.
func TestEmptyNamesAreRefused(t *testing.T) {
	model, out := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"inspect: MODEL is empty", []string{"inspect", ""}},
		{"check: MODEL is empty", []string{"check", ""}},
		{"replay: FILE is empty", []string{"replay", ""}},
		{"synth: OUT is empty", []string{"synth", "", "--preset", "tiny-qwen3moe"}},
		{"repack: IN is empty", []string{"repack", "", out}},
		{"repack: OUT is empty", []string{"repack", model, ""}},
		{"unpack: OUT is empty", []string{"unpack", repacked(t, model), ""}},
		{"quantize: IN is empty", []string{"quantize", "", "--dry-run"}},
		{"--file (-f) is empty", []string{"run", "-m", model, "-f", ""}},
		{"--lora is empty", []string{"run", "-m", model, "-p", "x", "--lora", ""}},
		{"--lora is empty", []string{"verify", "-m", model, "--lora", ""}},
		{"--json is empty", []string{"run", "-m", model, "-p", "x", "--json", ""}},
		{"--html is empty", []string{"bench", "-m", model, "--html", ""}},
		{"--file (-f) is empty", []string{"bench", "-m", model, "-f", ""}},
		{"--grammar-file is empty", []string{"run", "-m", model, "-p", "x", "--grammar-file", ""}},
		{"--json-schema is empty", []string{"run", "-m", model, "-p", "x", "--json-schema", "@"}},
	} {
		expectFailure(t, exitUsage, []string{c.want}, c.args...)
	}
}

func TestGrammarThatIsNoTextIsNamed(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	_, stderr, code := lescli("run", "-m", model, "-p", "x", "--grammar-file", model)
	if code != exitError || stderr != "lescli: "+model+": holds NUL bytes; it is not a grammar\n" {
		t.Errorf("exit code %d, %d bytes: %.200s", code, len(stderr), stderr)
	}
}

// A device has no end; what was read of it filled the memory of the machine.
func TestTextWithoutAnEndIsRefused(t *testing.T) {
	model, out := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "out")
	want := "/dev/zero has more than 128.00 MiB"
	for flag, args := range map[string][]string{
		"--file (-f)":       {"run", "-m", model, "-f", "/dev/zero"},
		"--grammar-file":    {"run", "-m", model, "-p", "x", "--grammar-file", "/dev/zero"},
		"--json-schema":     {"run", "-m", model, "-p", "x", "--json-schema", "@/dev/zero"},
		"--file (-f): /dev": {"imatrix", "-m", model, "-f", "/dev/zero", "-o", out},
	} {
		expectFailure(t, exitError, []string{flag, want}, args...)
	}
}

// A report goes through a link to its target, and into a pipe as it is.
func TestReportReplacesRegularFilesOnly(t *testing.T) {
	dir := t.TempDir()
	target, link, pipe := filepath.Join(dir, "real.json"), filepath.Join(dir, "link.json"), filepath.Join(dir, "pipe")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeJSON(link, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(target)
	if err != nil || !strings.Contains(string(text), `"a": 1`) {
		t.Errorf("target holds %q, %v", text, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	if err := syscall.Mkfifo(pipe, 0o644); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	if err := writeJSON(pipe, map[string]int{"b": 2}); err != nil {
		t.Fatal(err)
	}
	if got := <-read; !strings.Contains(got, `"b": 2`) {
		t.Errorf("pipe carried %q", got)
	}
}

// Counts that do not fit 32 bits ended in an assertion of llama.cpp, or wrapped and
// compared nothing, which was identical.
func TestLimitsOfVerify(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, c := range []struct {
		want string
		args []string
	}{
		{"--gen: 9223372036854775807 is not between 0 and ", []string{"--gen", "9223372036854775807"}},
		{"--gen: 4294967296 is not between 0 and ", []string{"--gen", "4294967296"}},
		{"--seqs: 4294967296 is more than 256", []string{"--seqs", "4294967296"}},
		{"--seqs: 257 is more than 256", []string{"--seqs", "257"}},
		{"are more than 16777216 tokens", []string{"--gen", "1073741824", "--prompt-tokens", "1"}},
		{"of 256 sequences are more than", []string{"--gen", "10000000", "--seqs", "256"}},
	} {
		expectFailure(t, exitUsage, []string{c.want}, append([]string{"verify", "-m", model, "--les-slots", "2"}, c.args...)...)
	}
}

// The records of so long a context filled the memory of the machine.
func TestContextsBeyondAnyModelAreRefused(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	expectFailure(t, exitUsage, []string{"--ctx (-c): 1073741824 is more than 16777216"}, "inspect", model, "-c", "1073741824")
	expectFailure(t, exitUsage, []string{"--ctx (-c): 16777217 is more than 16777216"}, "run", "-m", model, "-p", "x", "-c", "16777217")
	expectFailure(t, exitError, []string{"a context of 1073741824 tokens is more than 16777216"}, "bench", "-m", model, "-n", "1073741824")
}

func TestLimitsOfFlags(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, flags := range [][]string{
		{"-t", "100000"}, {"--les-lanes", "100000"}, {"--temp", "nan"}, {"--top-p", "nan"},
	} {
		args := append([]string{"run", "-m", model, "-p", "x", "-n", "1"}, flags...)
		if _, stderr, code := lescli(args...); code != exitUsage || !strings.Contains(stderr, "--") {
			t.Errorf("%v: exit code %d, %s", flags, code, stderr)
		}
	}
}
