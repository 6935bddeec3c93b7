//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// rewriteMemoryMax bounds what repack, unpack and check take of memory,
// whatever the size of the model.
const rewriteMemoryMax = 256 << 20

// largeModel is a file of 600 MiB, all zero and with holes where the system
// allows: two layers of experts of 1 MiB a matrix, one large dense tensor, and a
// vocabulary as large as any.
func largeModel(t *testing.T) string {
	t.Helper()
	w, err := llama.NewWriter(16)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	words := make([]string, 250_000)
	for i := range words {
		words[i] = fmt.Sprintf("Ġtoken %d", i)
	}
	err = errors.Join(
		w.SetString("general.architecture", "qwen3moe"),
		w.SetStrings("tokenizer.ggml.tokens", words),
		w.SetStrings("tokenizer.ggml.merges", words),
		w.SetInt32s("tokenizer.ggml.token_type", make([]int32, len(words))),
		w.AddTensor("token_embd.weight", llama.F32, 1024, 75*1024),
		w.AddTensor("blk.0.ffn_gate_exps.weight", llama.F32, 512, 512, 50),
		w.AddTensor("blk.0.ffn_up_exps.weight", llama.F32, 512, 512, 50),
		w.AddTensor("blk.0.ffn_down_exps.weight", llama.F32, 512, 512, 50),
		w.AddTensor("blk.1.ffn_gate_exps.weight", llama.F32, 512, 512, 50),
		w.AddTensor("blk.1.ffn_up_exps.weight", llama.F32, 512, 512, 50),
		w.AddTensor("blk.1.ffn_down_exps.weight", llama.F32, 512, 512, 50))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "large.gguf")
	if err := os.WriteFile(path, w.Meta(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, w.MetaBytes()+w.DataBytes()); err != nil {
		t.Fatal(err)
	}
	return path
}

// builtProgram builds lescli.
func builtProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "lescli")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// peakOf runs a command and returns the most memory it had resident. What the
// system counts for the process itself begins with what this one has, so its
// memory map is asked until it ends.
func peakOf(t *testing.T, command *exec.Cmd) (peak int64) {
	t.Helper()
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v: %v: %s", command.Args, err, out.String())
			}
			return peak
		case <-time.After(2 * time.Millisecond):
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", command.Process.Pid)) // empty at the end
		for line := range strings.Lines(string(text)) {
			var kib int64
			if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
				peak = max(peak, kib<<10)
			}
		}
	}
}

func TestMemoryOfRewritingDoesNotGrowWithTheModel(t *testing.T) {
	program, model, dir := builtProgram(t), largeModel(t), t.TempDir()
	packed := filepath.Join(dir, "packed")
	for _, args := range [][]string{{"repack", model, packed}, {"check", packed}, {"unpack", packed, filepath.Join(dir, "back")}} {
		peak := peakOf(t, exec.Command(program, args...))
		if info, err := os.Stat(packed); err != nil || info.Size() < 2*rewriteMemoryMax || peak == 0 || peak >= rewriteMemoryMax {
			t.Errorf("%s: a file of %d bytes, %v, and a peak of %d", args[0], info.Size(), err, peak)
		}
		t.Logf("%s: peak of %d", args[0], peak)
	}
}

// A signal in the midst of the work: what can be removed is, and nothing has the
// final name.
func TestSignalLeavesNothingUnderTheFinalName(t *testing.T) {
	program, model := builtProgram(t), largeModel(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out.gguf")
		var stderr bytes.Buffer
		command := exec.Command(program, "repack", model, out)
		command.Stderr = &stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			parts, _ := filepath.Glob(out + ".*.part")
			begun = len(parts) > 0
		}
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		command.Wait() // fails, as it should
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		killed := signal == syscall.SIGKILL
		if killed != (len(entries) == 1) || killed && !strings.HasSuffix(entries[0].Name(), ".part") {
			t.Errorf("%v leaves %v", signal, entries)
		}
		if !killed && (command.ProcessState.ExitCode() != stopped(signal) || !strings.Contains(stderr.String(), "lescli: interrupted")) {
			t.Errorf("%v: exit code %d: %s", signal, command.ProcessState.ExitCode(), stderr.String())
		}
	}
}

// Reads that fail end the work with the place, and leave nothing.
func TestReadThatFailsWhileRepackingIsNamed(t *testing.T) {
	rig, model, dir := newFaultRig(t), tinyModel(t, "tiny-qwen3moe"), t.TempDir()
	out, code := rig.run(t, model, "error=EIO:when=40+", "repack", model, filepath.Join(dir, "out.gguf"))
	if code != exitError || !strings.Contains(out, model) || !strings.Contains(out, "input/output error") || !strings.Contains(out, " at offset ") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
