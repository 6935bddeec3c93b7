//go:build linux

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// A file without importance data has the same bytes as llama-quantize's, NextN
// blocks included; one with them differs in the path that the metadata name.
func TestQuantizedFileIsThatOfLlamaQuantize(t *testing.T) {
	tool := upstreamTool(t, "llama-quantize")
	for _, preset := range []string{"tiny-qwen3moe", "tiny-qwen35moe-nextn", "tiny-qwen35moe-merged", "tiny-deepseek2", "tiny-gptoss"} {
		t.Run(preset, func(t *testing.T) {
			model, want := sourceModel(t, preset), filepath.Join(t.TempDir(), "want.gguf")
			args := []string{"--allow-requantize", "--tensor-type", "_exps\\.weight=q3_k", model, want, "Q4_K_M", "2"}
			if text, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			stock, _ := quantized(t, model, "--layout", "stock")
			if !bytes.Equal(mustRead(t, stock), mustRead(t, want)) {
				t.Error("the file differs from llama-quantize's")
			}
			packed, _ := quantized(t, model)
			checkUnpacks(t, packed, want)
			checkIdentical(t, packed)
			if stdout, stderr, code := lescli("check", packed); code != exitOK {
				t.Errorf("check: %s%s", stdout, stderr)
			}
		})
	}
}

// The tensor data of a file made with importance data are llama-quantize's.
func TestImportanceIsUsedAsLlamaQuantizeUsesIt(t *testing.T) {
	tool := upstreamTool(t, "llama-quantize")
	imatrix, want := tinyImatrix(t, referenceModel), filepath.Join(t.TempDir(), "want.gguf")
	args := []string{"--imatrix", imatrix, "--tensor-type", "_exps=iq3_s", referenceModel, want, "Q4_K_M", "2"}
	if text, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	got, _ := quantized(t, referenceModel, "--layout", "stock", "--imatrix", imatrix, "--experts", "iq3_s")
	data := func(path string) []byte {
		file, err := llama.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		return mustRead(t, path)[file.DataOff():]
	}
	if !bytes.Equal(data(got), data(want)) {
		t.Error("the tensor data differ from llama-quantize's")
	}
	plain, _ := quantized(t, referenceModel, "--layout", "stock", "--experts", "iq3_s")
	if bytes.Equal(data(plain), data(want)) {
		t.Error("importance data change nothing")
	}
}

func TestSplitModelIsQuantizedIntoOneFile(t *testing.T) {
	model := sourceModel(t, "tiny-qwen3moe")
	want, _ := quantized(t, model, "--layout", "stock")
	got, _ := quantized(t, splitModel(t, model)[0], "--layout", "stock")
	if !bytes.Equal(mustRead(t, got), mustRead(t, want)) {
		t.Error("a model in parts gives another file")
	}
}

func TestLayersGetTheTypesAskedFor(t *testing.T) {
	_, summary := quantized(t, sourceModel(t, "tiny-qwen3moe"), "--layers", "0-1=q5_k", "--layers", "1:down=q6_k", "--layers", "3=q2_k")
	for _, want := range []string{
		"experts of block 0: q5_K\n", "experts of block 1: down q6_K, gate q5_K, up q5_K\n",
		"experts of block 2: q3_K\n", "experts of block 3: q2_K\n", "final size: ", "importance data: none",
	} {
		if !strings.Contains(summary, want) {
			t.Errorf("summary has no %q: %s", want, summary)
		}
	}
}

// What the summary says before the work is what the file has after it.
func TestDryRunSaysTheFinalSize(t *testing.T) {
	model := sourceModel(t, "tiny-qwen35moe")
	for _, kind := range []string{"stock", "contiguous"} {
		out, summary := quantized(t, model, "--layout", kind)
		dry, stderr, code := lescli("quantize", model, "--dry-run", "--layout", kind)
		if code != exitOK || dry != summary {
			t.Errorf("exit code %d, %q instead of %q: %s", code, dry, summary, stderr)
		}
		if size := formatSize(int64(len(mustRead(t, out)))); !strings.Contains(summary, "final size: "+size+" (") {
			t.Errorf("%s: the file has %s: %s", kind, size, summary)
		}
	}
}

// Rows that do not divide are named with their type before the work, or refused.
func TestFallbacksAreNamedOrRefused(t *testing.T) {
	model := oddModel(t)
	_, summary := quantized(t, model)
	if !strings.Contains(summary, "fallback: ") || !strings.Contains(summary, "q4_0 instead of q3_K, rows of 96 do not divide into blocks of 256: blk.0.ffn_down_exps.weight") {
		t.Errorf("summary names no fallback: %s", summary)
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	expectFailure(t, exitError, []string{"blk.0.ffn_down_exps.weight", "q4_0 instead of q3_K"}, "quantize", model, out, "--no-fallback")
}

func TestTargetSizeIsKept(t *testing.T) {
	for _, kind := range []string{"stock", "contiguous"} {
		out, summary := quantized(t, referenceModel, "--target-size", "14M", "--layout", kind)
		if size := len(mustRead(t, out)); size > 14<<20 || size < 13<<20 {
			t.Errorf("%s: %d bytes: %s", kind, size, summary)
		}
	}
	out := filepath.Join(t.TempDir(), "out.gguf")
	expectFailure(t, exitError, []string{"--target-size", "is too small"}, "quantize", referenceModel, out, "--target-size", "5M")
}

func TestQuantizeRefuses(t *testing.T) {
	lossy, out := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "out.gguf")
	cases := map[string]struct {
		code  int
		parts []string
		args  []string
	}{
		"lossy source":      {exitError, []string{"which has lost much already", "--allow-requantize"}, []string{lossy, out}},
		"contiguous source": {exitError, []string{"has the contiguous layout already"}, []string{repacked(t, lossy), out}},
		"dense model":       {exitError, []string{"no routed experts"}, []string{sourceModel(t, "tiny-qwen3"), out}},
		"no such layers":    {exitError, []string{referenceModel, "--layers: there is no block 9, the model's are 0 to 5"}, []string{referenceModel, out, "--layers", "7-9=q4_k"}},
		"more layers":       {exitError, []string{referenceModel, "--layers: there is no block 6, the model's are 0 to 5"}, []string{referenceModel, out, "--layers", "0-6=q4_k"}},
		"no such experts":   {exitError, []string{referenceModel, "--layers", "blocks 2 to 5"}, []string{referenceModel, out, "--layers", "2-5:gate_up=q4_k"}},
		"itself":            {exitError, []string{"same file"}, []string{lossy, lossy, "--allow-requantize", "--force"}},
		"itself, measured":  {exitError, []string{"same file"}, []string{lossy, lossy, "--target-size", "1", "--force"}},
		"existing file":     {exitError, []string{lossy, "--force replaces it"}, []string{referenceModel, lossy, "--target-size", "5M"}},
		"model as imatrix":  {exitError, []string{"holds no importance data"}, []string{referenceModel, out, "--imatrix", lossy}},
		"type without data": {exitError, []string{"needs importance data"}, []string{referenceModel, out, "--rest", "iq3_xs"}},
		"odd type":          {exitUsage, []string{"--experts"}, []string{referenceModel, out, "--experts", "q8_1"}},
		"odd rest":          {exitUsage, []string{"--rest"}, []string{referenceModel, out, "--rest", "f16"}},
		"odd layers":        {exitUsage, []string{"--layers"}, []string{referenceModel, out, "--layers", "3=2=q4_k"}},
		"odd layout":        {exitUsage, []string{"--layout"}, []string{referenceModel, out, "--layout", "mine"}},
		"two choices":       {exitUsage, []string{"contradict"}, []string{referenceModel, out, "--target-size", "14M", "--experts", "q4_k"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := lescli(append([]string{"quantize"}, c.args...)...)
			for _, part := range c.parts {
				if code != c.code || !strings.Contains(stderr, part) {
					t.Errorf("exit code %d, no %q: %s", code, part, stderr)
				}
			}
			if _, err := os.Stat(out); err == nil {
				t.Error("a file was written")
			}
		})
	}
}

func TestImportanceDataDoNotReplaceWhatTheyAreMadeFrom(t *testing.T) {
	model, text := tinyModel(t, "tiny-qwen3moe"), filepath.Join(t.TempDir(), "text")
	before := mustRead(t, heldOut)
	if err := os.WriteFile(text, before, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, input := range []string{model, text} {
		expectFailure(t, exitError, []string{"--out", input, "is the same file as the input"}, "imatrix", "-m", model, "-f", text, "-o", input, "--force")
	}
	if !bytes.Equal(mustRead(t, text), before) {
		t.Error("the text has changed")
	}
	expectFailure(t, exitError, []string{"lescli: stat /nowhere.gguf"}, "imatrix", "-m", "/nowhere.gguf", "-f", text, "-o", text+".gguf")
}

// Names and shapes of a finetune are those of its model; what they are called is not.
func TestImportanceDataOfAnotherModelOfTheSameShapeAreNamed(t *testing.T) {
	imatrix, other := tinyImatrix(t, referenceModel), filepath.Join(t.TempDir(), "other.gguf")
	data := bytes.Replace(mustRead(t, referenceModel), []byte("les-ref-go-moe"), []byte("les-ref-finely"), 1)
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for model, want := range map[string]bool{referenceModel: false, other: true} {
		stdout, stderr, code := lescli("quantize", model, "--dry-run", "--imatrix", imatrix, "--allow-requantize")
		warned := strings.Contains(stdout, `warning: the importance data are of a model called "les-ref-go-moe", this one is called "les-ref-finely"`)
		if code != exitOK || warned != want {
			t.Errorf("%s: exit code %d: %s%s", model, code, stdout, stderr)
		}
	}
}

// Importance data of another model, of no model and with values that are none.
func TestExpertsWithoutDataNeedingThemFallBack(t *testing.T) {
	imatrix := tinyImatrix(t, tinyModel(t, "tiny-qwen3moe"))
	out := filepath.Join(t.TempDir(), "out.gguf")
	expectFailure(t, exitError, []string{imatrix, "was made for another model"}, "quantize", referenceModel, out, "--imatrix", imatrix)
	_, summary := quantized(t, referenceModel, "--experts", "iq3_xxs")
	if !strings.Contains(summary, "fallback: 18 of 74 tensors q3_K instead of iq3_xxs, no importance data") {
		t.Errorf("summary names no fallback: %s", summary)
	}
}

// Data are not missing for what is copied.
func TestExpertsThatKeepTheirTypeNeedNoData(t *testing.T) {
	model := sourceModel(t, "tiny-qwen3moe")
	imatrix := tinyImatrix(t, model)
	dry, stderr, code := lescli("quantize", model, "--dry-run", "--imatrix", imatrix, "--experts", "q8_0")
	if code != exitOK || !strings.Contains(dry, "importance data: "+imatrix) || strings.Contains(dry, "even weights") {
		t.Errorf("exit code %d: %s%s", code, dry, stderr)
	}
}

// A signal in the midst of the work leaves nothing under the final name.
func TestQuantizingThatIsKilledLeavesNoFile(t *testing.T) {
	program := builtProgram(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		out := filepath.Join(t.TempDir(), "out.gguf")
		command := exec.Command(program, "quantize", referenceModel, out, "--experts", "iq3_s") // which takes long
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for begun := false; !begun; time.Sleep(time.Millisecond) {
			parts, _ := filepath.Glob(out + ".*.part")
			if begun = len(parts) > 0; !begun && time.Since(began) > 30*time.Second {
				command.Process.Kill()
				t.Fatal("no file was begun in 30 s")
			}
		}
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		command.Wait() // fails, as it should
		parts, _ := filepath.Glob(out + "*")
		if killed := signal == syscall.SIGKILL; killed != (len(parts) == 1) || killed && !strings.HasSuffix(parts[0], ".part") {
			t.Errorf("%v leaves %v", signal, parts)
		}
	}
}

// oddModel is a file of zeros whose experts have a width that no block of 256
// divides.
func oddModel(t *testing.T) string {
	t.Helper()
	file, err := llama.OpenFile(sourceModel(t, "tiny-qwen3moe"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := llama.NewWriter(len(file.Tensors()))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	w.CopyKeys(file, func(string) bool { return true })
	for _, tensor := range file.Tensors() {
		const width = 96
		switch {
		case strings.Contains(tensor.Name, "ffn_down_exps"):
			tensor.Shape[0] = width
		case strings.Contains(tensor.Name, "_exps"):
			tensor.Shape[1] = width
		}
		if err := w.AddTensor(tensor.Name, tensor.Type, tensor.Shape[:]...); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "odd.gguf")
	if err := os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
