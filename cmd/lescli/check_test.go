package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/repack"
	"github.com/les-project/les/lesext/layout"
)

// flip changes one byte of a file.
func flip(t *testing.T, path string, off int64) {
	t.Helper()
	data := mustRead(t, path)
	data[off] ^= 0x10
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// extentOff is where an expert of the given layer is.
func extentOff(t *testing.T, path string, layer, id int) (off, bytes int64) {
	t.Helper()
	file, err := llama.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stored, err := repack.Layout(file)
	if err != nil || stored == nil {
		t.Fatalf("layout is %v, %v", stored, err)
	}
	l := stored.Layers[layer]
	return file.DataOff() + l.Off + int64(id)*l.Stride, l.Stride
}

func TestDamagedExpertIsNamedByBlockExpertAndOffset(t *testing.T) {
	path, dir := repacked(t, tinyModel(t, "tiny-deepseek2")), t.TempDir()
	off, bytes := extentOff(t, path, 1, 5) // block 3, as the first two are dense
	for _, at := range []int64{0, bytes / 2, bytes - 1} {
		flip(t, path, off+at)
		stdout, stderr, code := lescli("check", path)
		want := fmt.Sprintf("%s: damaged: block 3, expert 5: %d bytes at offset %d (%#x): checksum ", path, bytes, off, off)
		if code != exitError || !strings.HasPrefix(stdout, want) || strings.Count(stdout, "\n") != 1 ||
			!strings.Contains(stderr, path+": 1 of 32 experts and 0 of ") {
			t.Errorf("exit code %d: %s%s", code, stdout, stderr)
		}
		if at < bytes-1 { // what is behind the matrices is of no tensor
			expectFailure(t, exitError, []string{path, "does not give the original back", "lescli check"}, "unpack", path, filepath.Join(dir, "out"))
		}
		flip(t, path, off+at)
	}
	if stdout, stderr, code := lescli("check", path); code != exitOK {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestDamagedTensorIsNamed(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-gptoss"))
	file, err := llama.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tensor := range file.Tensors() {
		if tensor.Name == "blk.1.ffn_down_exps.bias" {
			flip(t, path, tensor.Off+tensor.Bytes-1)
			stdout, stderr, code := lescli("check", path)
			want := fmt.Sprintf("damaged: tensor %s: %d bytes at offset %d ", tensor.Name, tensor.Bytes, tensor.Off)
			if code != exitError || !strings.Contains(stdout, want) || !strings.Contains(stderr, ": 0 of 16 experts and 1 of ") {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			return
		}
	}
	t.Error("the model has no biases of experts")
}

// TestFileThatCannotBeGivenBackIsDamaged changes what has no checksum of its own.
func TestFileThatCannotBeGivenBackIsDamaged(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	at := bytes.Index(mustRead(t, path), []byte("tokenizer.ggml.model"))
	if at < 0 {
		t.Fatal("the model has no such key")
	}
	flip(t, path, int64(at+len("tokenizer.ggml.mode")))
	want := []string{path, "does not give the original back"}
	expectFailure(t, exitError, want, "check", path)
	expectFailure(t, exitError, want, "unpack", path, filepath.Join(t.TempDir(), "out"))
}

// TestFileOfAnotherSizeIsNotAsItWasWritten appends to a file that is else whole.
// llama.cpp never looks there, so only check minds.
func TestFileOfAnotherSizeIsNotAsItWasWritten(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	whole := mustRead(t, path)
	for _, more := range []int{1, 5000} {
		if err := os.WriteFile(path, append(bytes.Clone(whole), make([]byte, more)...), 0o600); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%s: has %d bytes, it was written with %d", path, len(whole)+more, len(whole))
		expectFailure(t, exitError, []string{want}, "check", path)
	}
	if _, stderr, code := lescli("run", "-m", path, "-p", "x", "-n", "1"); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

// TestAbsurdSizeOfTheOriginalIsRefused has the work of check and unpack bounded by
// the file, not by what its metadata say.
func TestAbsurdSizeOfTheOriginalIsRefused(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	data := mustRead(t, path)
	at := bytes.Index(data, []byte(layout.KeyBytes)) + len(layout.KeyBytes) + 4 // behind its type
	for _, absurd := range []uint64{1 << 33, 1 << 60, 1<<63 - 1} {
		binary.LittleEndian.PutUint64(data[at:], absurd)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		want := []string{path, fmt.Sprintf("%s is %d", layout.KeyBytes, absurd)}
		expectFailure(t, exitError, want, "check", path)
		expectFailure(t, exitError, want, "unpack", path, filepath.Join(t.TempDir(), "out"))
	}
}

func TestListOfDamageIsBounded(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	data := mustRead(t, path)
	off, _ := extentOff(t, path, 0, 0)
	clear(data[off:])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := lescli("check", path)
	if code != exitError || strings.Count(stdout, "\n") != damageLinesMax || !strings.Contains(stderr, "32 of 32 experts and 0 of ") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestTruncatedRepackedFileIsRefused(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	whole := mustRead(t, path)
	out := filepath.Join(t.TempDir(), "out")
	for _, bytes := range []int{len(whole) - 1, len(whole) - 3*256*110, len(whole) / 2} {
		if err := os.WriteFile(path, whole[:bytes], 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"inspect", path}, {"run", "-m", path, "-p", "x"}, {"verify", "-m", path}, {"check", path}, {"unpack", path, out}} {
			expectFailure(t, exitError, []string{path, "is cut off: tensor "}, args...)
		}
	}
}

func TestStockFileHasNothingToCheckOrUnpack(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	expectFailure(t, exitError, []string{model, "has the stock layout, which has no checksums; repack writes a file that has"}, "check", model)
	dense := tinyModel(t, "tiny-qwen3")
	expectFailure(t, exitError, []string{dense, "which has no checksums; repack cannot write a file that has: ", "no routed experts"}, "check", dense)
	expectFailure(t, exitError, []string{model, "has the stock layout; there is nothing to unpack"}, "unpack", model, filepath.Join(t.TempDir(), "out"))
}

func TestRefusalsOfRepackLeaveEverythingAsItIs(t *testing.T) {
	model, dense := tinyModel(t, "tiny-qwen3moe"), tinyModel(t, "tiny-qwen3")
	dir := t.TempDir()
	link, there, out := filepath.Join(filepath.Dir(model), "link"), filepath.Join(dir, "there"), filepath.Join(dir, "out")
	if err := os.Link(model, link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	packed := repacked(t, model)
	before := mustRead(t, model)
	cases := map[string]struct {
		code int
		want []string
		args []string
	}{
		"nothing":         {exitUsage, []string{"IN and OUT are missing"}, []string{"repack"}},
		"no output":       {exitUsage, []string{"OUT is missing"}, []string{"unpack", packed}},
		"three":           {exitUsage, []string{`"c"`}, []string{"repack", "a", "b", "c"}},
		"nothing checked": {exitUsage, []string{"--model (-m) is missing"}, []string{"check"}},
		"no such file":    {exitError, []string{"none", noSuchFile}, []string{"repack", filepath.Join(dir, "none"), out}},
		"dense":           {exitError, []string{dense, "no routed experts"}, []string{"repack", dense, out}},
		"itself":          {exitError, []string{model, "is the same file as the input"}, []string{"repack", model, model, "--force"}},
		"hard link":       {exitError, []string{link, "is the same file as the input"}, []string{"repack", model, link, "--force"}},
		"unpack itself":   {exitError, []string{packed, "is the same file as the input"}, []string{"unpack", packed, packed, "--force"}},
		"there":           {exitError, []string{there, "--force"}, []string{"repack", model, there}},
		"unpack there":    {exitError, []string{there, "--force"}, []string{"unpack", packed, there}},
		"again":           {exitError, []string{packed, "has the contiguous layout already"}, []string{"repack", packed, out}},
		"no folder":       {exitError, []string{"nowhere", noSuchFile}, []string{"repack", model, filepath.Join(dir, "nowhere", "out")}},
		"folder":          {exitError, []string{dir, "is a directory"}, []string{"repack", model, dir, "--force"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { expectFailure(t, c.code, c.want, c.args...) })
	}
	if string(mustRead(t, there)) != "old" || string(mustRead(t, model)) != string(before) {
		t.Error("a file was changed")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if _, stderr, code := lescli("repack", model, there, "--force"); code != exitOK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
