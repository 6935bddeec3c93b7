package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/expert"
)

// repacked rewrites a model and returns the path of the result.
func repacked(t *testing.T, model string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "repacked.gguf")
	stdout, stderr, code := lescli(append([]string{"repack", model, out}, flags...)...)
	if code != exitOK || stdout != "" || !strings.Contains(stderr, "wrote "+out) {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	return out
}

// checkIdentical runs verify and wants something to have been streamed.
func checkIdentical(t *testing.T, model string) {
	t.Helper()
	stdout, stderr, code := lescli("verify", "-m", model, "--les-slots", "floor,2", "--les-lookahead", "0,1", "--prompt-tokens", "1,40", "--gen", "6")
	if code != exitOK || !strings.Contains(stdout, "identical: ") || !strings.Contains(stdout, " experts streamed") {
		t.Errorf("%s: exit code %d: %s%s", model, code, stdout, stderr)
	}
}

// checkUnpacks wants the bytes of want back.
func checkUnpacks(t *testing.T, model, want string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "unpacked.gguf")
	if _, stderr, code := lescli("unpack", model, out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if !bytes.Equal(mustRead(t, out), mustRead(t, want)) {
		t.Errorf("%s does not give %s back", model, want)
	}
}

func TestRepackedModelIsIdenticalAndGivesTheOriginalBack(t *testing.T) {
	presets := []string{
		"tiny-qwen3moe", "tiny-qwen35moe-nextn", "tiny-qwen35moe-merged", "tiny-deepseek2", "tiny-deepseek2-merged", "tiny-gptoss",
	}
	for _, preset := range presets {
		t.Run(preset, func(t *testing.T) {
			model := tinyModel(t, preset)
			out := repacked(t, model)
			if stdout, stderr, code := lescli("check", out); code != exitOK || !strings.Contains(stdout, "are as they were written") {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
			checkIdentical(t, out)
			checkUnpacks(t, out, model)
		})
	}
}

// The logits of the repacked file are those of the original, not only the same
// streamed and resident: both give the same text.
func TestRepackedModelSaysWhatTheOriginalSays(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	out := repacked(t, model)
	text := func(path string, flags ...string) string {
		t.Helper()
		stdout, stderr, code := lescli(append([]string{"run", "-m", path, "-p", "Hello", "-n", "24", "--temp", "0"}, flags...)...)
		if code != exitOK || stdout == "" {
			t.Fatalf("exit code %d: %s", code, stderr)
		}
		return stdout
	}
	want := text(model, "--les", "off")
	for _, flags := range [][]string{{"--les", "off"}, {"--les-slots", "floor"}} {
		if got := text(out, flags...); got != want {
			t.Errorf("%v: %q, want %q", flags, got, want)
		}
	}
}

func TestInspectSaysWhichLayoutAFileHas(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for path, want := range map[string]string{model: "stock", repacked(t, model): "contiguous"} {
		stdout, stderr, code := lescli("inspect", path)
		if code != exitOK || !strings.Contains(stdout, "layout         "+want+"\n") {
			t.Errorf("%s: exit code %d: %s%s", path, code, stdout, stderr)
		}
	}
}

// A whole expert is one read, and slots have no room that is not of experts.
func TestOneReadBringsAWholeExpert(t *testing.T) {
	out := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	file, err := readModelFile(out)
	if err != nil {
		t.Fatal(err)
	}
	const extent = (3*256*110 + 4095) / 4096 * 4096
	if shape := file.shape(); shape.SlotBytes != extent || file.expertBytes() != 3*256*110 || len(file.layers) != 4 || len(file.unknown) != 0 {
		t.Errorf("shape is %+v, experts of %d bytes, unknown %v", shape, file.expertBytes(), file.unknown)
	}
	first, stride := extentOff(t, out, 0, 0)
	var reads, odd atomic.Int64
	useFaults(t, func(want expert.Extent) error {
		reads.Add(1)
		if (want.Off-first)%stride != 0 || want.Bytes != 3*256*110 {
			odd.Add(1)
		}
		return nil
	})
	_, stderr, code := lescli("run", "-m", out, "-p", "Hello", "-n", "8", "--les-slots", "0")
	if code != exitOK || strings.Contains(stderr, "resident:") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if reads.Load() == 0 || odd.Load() != 0 || stride != extent {
		t.Errorf("%d of %d reads are not of one expert; extents are %d apart", odd.Load(), reads.Load(), stride)
	}
}

func TestSplitModelIsRepackedIntoOneFile(t *testing.T) {
	for _, preset := range []string{"tiny-qwen3moe", "tiny-gptoss"} {
		parts := splitModel(t, tinyModel(t, preset))
		out := repacked(t, parts[0])
		checkIdentical(t, out)
		tool, merged, ascii := upstreamTool(t, "llama-gguf-split"), filepath.Join(t.TempDir(), "merged.gguf"), filepath.Join(t.TempDir(), "parts")
		if err := os.Rename(filepath.Dir(parts[0]), ascii); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command(tool, "--merge", filepath.Join(ascii, filepath.Base(parts[0])), merged).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		checkUnpacks(t, out, merged)
	}
}

func TestPartsThatAreNotAWholeModelAreNotRepacked(t *testing.T) {
	parts := splitModel(t, tinyModel(t, "tiny-qwen3moe"))
	dir := t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	expectFailure(t, exitError, []string{parts[1], "give the first part, " + parts[0]}, "repack", parts[1], out)
	last := parts[len(parts)-1]
	whole := mustRead(t, last)
	other := splitModel(t, tinyModel(t, "tiny-deepseek2"))
	swap := func(data []byte) {
		t.Helper()
		if err := os.WriteFile(last, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	swap(whole[:len(whole)-1])
	expectFailure(t, exitError, []string{last, "is cut off: tensor "}, "repack", parts[0], out)
	swap(renumbered(t, mustRead(t, other[1]), 1, len(parts)-1))
	expectFailure(t, exitError, []string{"they are not parts of one model"}, "repack", parts[0], out)
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	expectFailure(t, exitError, []string{last, "is missing"}, "repack", parts[0], out)
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// renumbered changes which part a file says it is.
func renumbered(t *testing.T, data []byte, from, to int) []byte {
	t.Helper()
	key := []byte("split.no\x02\x00\x00\x00") // a number of 16 bits follows
	at := bytes.Index(data, key)
	if at < 0 || int(data[at+len(key)]) != from {
		t.Fatal("no number of the part")
	}
	data = bytes.Clone(data)
	data[at+len(key)] = byte(to)
	return data
}

func TestKeptNamesAreReadAndWarnedOf(t *testing.T) {
	model, out := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "out.gguf")
	_, stderr, code := lescli("repack", "--keep-names", model, out)
	if code != exitOK || !strings.Contains(stderr, "warning: --keep-names: ") || !strings.Contains(stderr, "garbage from "+out) {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	names := map[string]bool{}
	file, err := llama.OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tensor := range file.Tensors() {
		names[tensor.Name] = true
	}
	if !names["blk.3.ffn_down_exps.weight"] || names["blk.3.ffn_down_exps.weight.les"] {
		t.Errorf("names are %v", names)
	}
	checkIdentical(t, out)
	checkUnpacks(t, out, model)
}

// To a program that does not know the key, the file is one without it.
func TestProgramThatDoesNotKnowTheLayoutRefusesIt(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	cases := map[string][]string{"tensor 'blk.0.ffn_gate_exps.weight' not found": nil, "wrong number of tensors": {"--keep-names"}}
	for want, flags := range cases {
		path := repacked(t, model, flags...)
		patch(t, path, "les.layout.version", "xes.layout.version")
		m, err := llama.LoadModel(path, llama.ModelParams{})
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error is %v, want %q", flags, err, want)
		}
		expectFailure(t, exitError, []string{path, "les.layout.version is missing"}, "inspect", path)
	}
}

// patch replaces the only place in a file where a text is.
func patch(t *testing.T, path, from, to string) {
	t.Helper()
	data := mustRead(t, path)
	if len(from) != len(to) || bytes.Count(data, []byte(from)) != 1 {
		t.Fatalf("%s has %q %d times", path, from, bytes.Count(data, []byte(from)))
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(from), []byte(to), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestLayoutOfAnotherVersionIsRefusedByNumber(t *testing.T) {
	path := repacked(t, tinyModel(t, "tiny-qwen3moe"))
	patch(t, path, "les.layout.version\x04\x00\x00\x00\x01", "les.layout.version\x04\x00\x00\x00\x07")
	out := filepath.Join(t.TempDir(), "out")
	for _, args := range [][]string{
		{"inspect", path}, {"run", "-m", path, "-p", "x"}, {"run", "-m", path, "-p", "x", "--les", "off"}, {"verify", "-m", path},
		{"bench", "-m", path}, {"check", path}, {"unpack", path, out},
	} {
		expectFailure(t, exitError, []string{path, "les.layout.version is [7], only 1 is known"}, args...)
	}
	m, err := llama.LoadModel(path, llama.ModelParams{})
	if err == nil {
		m.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "les.layout.version is 7, only 1 is known") {
		t.Errorf("error is %v", err)
	}
}

func TestTimeLeftFollowsThePace(t *testing.T) {
	cases := []struct {
		elapsed     time.Duration
		done, total int64
		want        string
	}{
		{time.Millisecond, 5, 10, ""}, {3 * time.Second, 0, 10, ""}, {2 * time.Second, 1, 4, ", 6s left"}, {90 * time.Second, 10, 10, ", 0s left"},
		{time.Minute, 1, 181, ", 3h0m0s left"},
	}
	for _, c := range cases {
		if got := timeLeft(c.elapsed, c.done, c.total); got != c.want {
			t.Errorf("%v, %d of %d: %q, want %q", c.elapsed, c.done, c.total, got, c.want)
		}
	}
}
