package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
)

// faultyReader asks before each read whether it fails.
type faultyReader struct {
	readq.Reader
	fault func(want expert.Extent) error
}

func (r faultyReader) ReadExtent(want expert.Extent, buf []byte) error {
	if err := r.fault(want); err != nil {
		return &os.PathError{Op: "read", Path: "model", Err: err}
	}
	return r.Reader.ReadExtent(want, buf)
}

// useFaults puts faults into the reads of the engine.
func useFaults(t *testing.T, fault func(want expert.Extent) error) {
	before := streaming
	streaming = &lesStreaming{wrap: func(r readq.Reader) readq.Reader { return faultyReader{r, fault} }}
	t.Cleanup(func() { streaming = before })
}

func TestPassingReadErrorIsRepeatedAndCounted(t *testing.T) {
	model, report := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "run.json")
	args := []string{"run", "-m", model, "-p", "Hello", "-n", "12", "--les-slots", "1", "--json", report}
	want, stderr, code := lescli(args...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	var mu sync.Mutex
	failed := map[expert.Extent]bool{}
	useFaults(t, func(want expert.Extent) error {
		mu.Lock()
		defer mu.Unlock()
		if failed[want] {
			return nil
		}
		failed[want] = true
		return syscall.EIO
	})
	got, stderr, code := lescli(args...)
	if code != exitOK || got != want || !strings.Contains(stderr, "repeated") {
		t.Errorf("exit code %d, text %q, want %q: %s", code, got, want, stderr)
	}
	var s summary
	text, err := os.ReadFile(report)
	if err = errors.Join(err, json.Unmarshal(text, &s)); err != nil || s.RetriedReads == 0 {
		t.Errorf("%d reads repeated, error %v", s.RetriedReads, err)
	}
}

// openTiny opens a session with the floor as slots, so that each step reads.
func openTiny(t *testing.T, model string, les lesOptions, log io.Writer) *session {
	t.Helper()
	s, err := openSession(context.Background(), sessionOptions{
		path: model, les: les, resident: residentParams, line: newProgressLine(io.Discard), log: log,
		context: llama.ContextParams{Tokens: 64, Batch: 16, Ubatch: 16, Seqs: 1, Threads: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// feedSome decodes n tokens one by one on an empty context and returns the last
// logits.
func feedSome(s *session, n int) ([]float32, error) {
	s.lctx.Clear()
	batch := llama.NewBatch(1)
	defer batch.Close()
	tokens := newTokenSource(1, s.model.VocabSize())
	for pos := range n {
		batch.Clear()
		batch.Add(tokens.next(), pos, 0, true)
		if err := s.decode(batch); err != nil {
			return nil, err
		}
	}
	logits, err := s.lctx.Logits(0)
	return slices.Clone(logits), err
}

// TestLastingReadErrorFailsTheStepAndNoMore breaks the device, and mends it.
func TestLastingReadErrorFailsTheStepAndNoMore(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	want, err := feedSome(openTiny(t, model, lesOptions{mode: lesOff}, io.Discard), 8)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	reads, broken := 0, false
	useFaults(t, func(expert.Extent) error {
		mu.Lock()
		defer mu.Unlock()
		reads++
		if broken && reads > 20 {
			return syscall.EIO
		}
		return nil
	})
	s := openTiny(t, model, lesOptions{mode: lesOn, lookahead: 1}, io.Discard)
	setBroken := func(is bool) { mu.Lock(); reads, broken = 0, is; mu.Unlock() }
	for range 3 {
		setBroken(true)
		_, err := feedSome(s, 8)
		for _, part := range []string{"expert ", "of block ", "3 attempts", "input/output error", "check the file"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("error %v does not have %q", err, part)
			}
		}
		setBroken(false)
		got, err := feedSome(s, 8)
		if err != nil {
			t.Fatal(err)
		}
		if at, same := sameBits(want, got); !same {
			t.Fatalf("token %d differs after the fault", at)
		}
	}
}

// TestFileThatShrinksFailsTheRun cuts the file while experts are read from it:
// directly, and in memory, where the page cache is the file.
func TestFileThatShrinksFailsTheRun(t *testing.T) {
	whole, err := os.ReadFile(tinyModel(t, "tiny-qwen3moe"))
	if err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"direct": t.TempDir(), "buffered": memoryDir(t)} {
		t.Run(name, func(t *testing.T) {
			if dir == "" {
				t.Skip("no /dev/shm")
			}
			path := filepath.Join(dir, "model.gguf")
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			s := openTiny(t, path, lesOptions{mode: lesOn, lookahead: 1}, io.Discard)
			want, err := feedSome(s, 8)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, int64(len(whole)/2)); err != nil {
				t.Fatal(err)
			}
			_, err = feedSome(s, 8)
			for _, part := range []string{path, " at 0x", "expert ", "of block ", "unexpected EOF", "the file has"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not have %q", err, part)
				}
			}
			if err := os.WriteFile(path, whole, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := feedSome(s, 8)
			if err != nil {
				t.Fatal(err)
			}
			if at, same := sameBits(want, got); !same {
				t.Errorf("token %d differs once the file is whole again", at)
			}
		})
	}
}

// TestEmbeddingsThatCannotBeReadFailTheStep cuts the file ahead of its first
// tensor, which the token embeddings are.
func TestEmbeddingsThatCannotBeReadFailTheStep(t *testing.T) {
	path := tinyModel(t, "tiny-qwen3moe")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := openTiny(t, path, lesOptions{mode: lesOn, slots: 8}, io.Discard)
	want, err := feedSome(s, 8)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	_, err = feedSome(s, 1)
	for _, part := range []string{"token_embd.weight", path, " at 0x", "144 bytes", "unexpected EOF", "check the file"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v does not have %q", err, part)
		}
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := feedSome(s, 8)
	if err != nil {
		t.Fatal(err)
	}
	if at, same := sameBits(want, got); !same {
		t.Errorf("token %d differs once the file is whole again", at)
	}
}

// memoryDir is a folder in memory, which has no direct reads on most kernels;
// empty where there is none.
func memoryDir(t *testing.T) string {
	if _, err := os.Stat("/dev/shm"); err != nil {
		return ""
	}
	dir, err := os.MkdirTemp("/dev/shm", "lescli-test-")
	if err != nil {
		return ""
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestFileInMemoryIsReadInOneWayOrTheOtherAndSaysSo(t *testing.T) {
	dir := memoryDir(t)
	if dir == "" {
		t.Skip("no /dev/shm")
	}
	path := filepath.Join(dir, "модель é 模型.gguf")
	if _, stderr, code := lescli("synth", path, "--preset", "tiny-qwen3moe"); code != exitOK {
		t.Fatal(stderr)
	}
	var log bytes.Buffer
	s := openTiny(t, path, lesOptions{mode: lesOn}, &log)
	if _, err := feedSome(s, 4); err != nil {
		t.Error(err)
	}
	lines := strings.Count(log.String(), "\n")
	if lines > 1 || lines == 1 && !(strings.Contains(log.String(), path) && strings.Contains(log.String(), "page cache")) {
		t.Errorf("log is %q", log.String())
	}
}
