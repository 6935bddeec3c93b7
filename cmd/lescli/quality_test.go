package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cgo/measure"
)

// Collected streamed, resident and by llama-imatrix, the data are the same bytes
// but for the name of the text.
func TestImatrixOfStreamedExpertsIsThatOfResidentOnes(t *testing.T) {
	for _, preset := range []string{"tiny-qwen3moe", "tiny-qwen35moe-merged", "tiny-deepseek2", "tiny-gptoss"} {
		model := tinyModel(t, preset)
		want := mustRead(t, tinyImatrix(t, model, "--les", "off"))
		if got := mustRead(t, tinyImatrix(t, model, "--les-slots", "floor")); !bytes.Equal(got, want) {
			t.Errorf("%s: streamed and resident differ", preset)
		}
		if got := mustRead(t, tinyImatrix(t, model, "--les-slots", "2", "-ub", "64")); len(got) != len(want) {
			t.Errorf("%s: %d bytes in narrow steps, %d otherwise", preset, len(got), len(want))
		}
	}
}

func TestImatrixIsThatOfLlamaImatrix(t *testing.T) {
	tool := upstreamTool(t, "llama-imatrix")
	want := filepath.Join(t.TempDir(), "want.gguf")
	args := []string{"-m", referenceModel, "-f", heldOut, "-o", want, "-c", "128", "-b", "128", "-ub", "512", "--chunks", "2", "--no-repack", "--no-ppl"}
	if text, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	// 512 tokens at once would be four chunks; llama-imatrix was told to take one.
	got := tinyImatrix(t, referenceModel, "-ub", "128")
	gotKeys, gotData := imatrixParts(t, got)
	wantKeys, wantData := imatrixParts(t, want)
	if !slices.Equal(gotKeys, append(wantKeys, measure.ModelKey)) || !bytes.Equal(gotData, wantData) {
		t.Errorf("the data differ from llama-imatrix's; keys are %q, want %q", gotKeys, wantKeys)
	}
}

func TestQualityLooksAtAllModelsBeforeItReadsTheText(t *testing.T) {
	_, stderr, code := lescli("quality", "-m", referenceModel, "-m", "/nowhere.gguf", "--ref", referenceModel, "-f", heldOut, "-c", "256", "--chunks", "2")
	if code != exitError || !strings.HasSuffix(stderr, " /nowhere.gguf: "+noSuchFile+"\n") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestChunksBeyondWhatLlamaCountsAreRefused(t *testing.T) {
	args := []string{"-m", referenceModel, "-f", heldOut, "--chunks", "4294967296"}
	want := []string{"--chunks: 4294967296 is more than 1073741824"}
	expectFailure(t, exitUsage, want, append([]string{"imatrix", "-o", filepath.Join(t.TempDir(), "out")}, args...)...)
	expectFailure(t, exitUsage, want, append([]string{"quality", "--ref", referenceModel}, args...)...)
}

// imatrixParts are the keys of importance data, and all behind the metadata.
func imatrixParts(t *testing.T, path string) (keys []string, data []byte) {
	t.Helper()
	file, err := llama.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	return file.Keys(), mustRead(t, path)[file.DataOff():]
}

func TestImatrixSaysWhichExpertsWereSeen(t *testing.T) {
	out := filepath.Join(t.TempDir(), "imatrix.gguf")
	args := []string{"imatrix", "-m", referenceModel, "-f", heldOut, "-o", out, "-c", "64", "--chunks", "2"}
	stdout, stderr, code := lescli(args...)
	if code != exitOK || strings.Count(stdout, " of 24 ") != 6 || !strings.Contains(stderr, "wrote "+out) {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	expectFailure(t, exitError, []string{"--out", "exists"}, args...)
}

// A model has no divergence from itself, whichever way its experts come.
func TestQualityOfAModelAgainstItself(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	stdout, stderr, code := lescli("quality", "-m", referenceModel, "--ref", referenceModel, "-f", heldOut, "-c", "256", "--chunks", "2",
		"--les-slots", "floor", "--json", report)
	if code != exitOK || strings.Count(stdout, referenceModel) != 2 {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	var got qualityReport
	if err := json.Unmarshal(mustRead(t, report), &got); err != nil {
		t.Fatal(err)
	}
	row := got.Models[0]
	if row.KL > 1e-4 || row.KL < -1e-4 || row.SameTop != 100 || row.Perplexity < 1 || got.Ref.ExpertBytes != 3*256*256*2 {
		t.Errorf("report is %+v", got)
	}
	if difference := row.Perplexity - got.Ref.Perplexity; difference > 0.01 || difference < -0.01 {
		t.Errorf("perplexity is %v, that of the reference %v", row.Perplexity, got.Ref.Perplexity)
	}
}

func TestQualityRefuses(t *testing.T) {
	short := filepath.Join(t.TempDir(), "short.txt")
	if err := os.WriteFile(short, []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	other := tinyModel(t, "tiny-qwen3moe")
	common := []string{"quality", "-m", other, "--ref", referenceModel, "-c", "64", "--chunks", "4"}
	expectFailure(t, exitUsage, []string{"--file (-f) is missing"}, common...)
	_, stderr, code := lescli(append(common, "-f", short)...)
	if code != exitError || !strings.Contains(stderr, short) || !strings.Contains(stderr, "two chunks") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	expectFailure(t, exitError, []string{heldOut, "62 tokens would be counted, 100"}, "quality", "-m", referenceModel, "--ref", referenceModel, "-c", "64", "--chunks", "2", "-f", heldOut)
	_, stderr, code = lescli(append(common, "-f", heldOut)...)
	if code != exitError || !strings.Contains(stderr, other) || !strings.Contains(stderr, "cannot be compared") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
