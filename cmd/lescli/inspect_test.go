package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

func inspected(t *testing.T, preset string) inspection {
	t.Helper()
	stdout, stderr, code := lescli("inspect", tinyModel(t, preset), "--json", "-c", "512", "-ub", "64")
	if code != exitOK {
		t.Fatal(stderr)
	}
	var report inspection
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatal(err)
	}
	return report
}

func TestInspectCountsExperts(t *testing.T) {
	const expert = 3 * 256 * 110 // gate, up and down in Q3_K, one block a row
	const embeddings = 512 * 144 // Q4_K, one block a row
	cases := map[string]inspection{
		"tiny-qwen3moe":         {Architecture: "qwen3moe", Layers: 4, MoELayers: 4},
		"tiny-deepseek2":        {Architecture: "deepseek2", Layers: 5, MoELayers: 3, NextNBlocks: 1, NextNBytes: 8 * expert},
		"tiny-qwen35moe-merged": {Architecture: "qwen35moe", Layers: 4, MoELayers: 4},
		"tiny-gptoss":           {Architecture: "gpt-oss", Layers: 2, MoELayers: 2},
	}
	for preset, want := range cases {
		t.Run(preset, func(t *testing.T) {
			got := inspected(t, preset)
			if got.Architecture != want.Architecture || got.Layers != want.Layers || got.MoELayers != want.MoELayers ||
				got.NextNBlocks != want.NextNBlocks || got.NextNBytes != want.NextNBytes {
				t.Errorf("report is %+v", got)
			}
			if got.Experts != 8 || got.Used != 2 || got.ExpertBytes != expert || got.RoutedBytes != int64(8*expert*want.MoELayers) {
				t.Errorf("experts are %+v", got)
			}
			if got.RowsBytes != embeddings || got.DenseBytes <= 0 || got.KVBytes <= 0 || got.ComputeBytes <= 0 || len(got.Unknown) != 0 {
				t.Errorf("memory is %+v", got)
			}
			if got.FullBytes != got.DenseBytes+got.KVBytes+got.ComputeBytes+got.ProcessBytes+int64(8*want.MoELayers)*got.SlotBytes {
				t.Errorf("parts do not add up: %+v", got)
			}
			checkBudgets(t, got)
		})
	}
}

// checkBudgets wants the floor first, everything last, and no line that takes
// more than it has.
func checkBudgets(t *testing.T, r inspection) {
	t.Helper()
	first, last := r.Budgets[0], r.Budgets[len(r.Budgets)-1]
	if first.BudgetBytes != r.FloorBytes || first.Slots != r.FloorSlots || last.Slots != r.Experts*r.MoELayers || last.TotalBytes != r.FullBytes {
		t.Errorf("first line %+v, last line %+v", first, last)
	}
	for _, line := range r.Budgets {
		if line.TotalBytes > line.BudgetBytes {
			t.Errorf("line takes too much: %+v", line)
		}
	}
}

func TestInspectOfADenseModelHasNoBudgets(t *testing.T) {
	if got := inspected(t, "tiny-qwen3"); got.MoELayers != 0 || got.RowsBytes != 0 || len(got.Budgets) != 0 || got.FloorBytes != got.FullBytes {
		t.Errorf("report is %+v", got)
	}
}

func TestInspectSaysWhyADrafterHasNoPlan(t *testing.T) {
	_, stderr, code := lescli("inspect", "../../models/les-ref-dspark.gguf")
	if code != exitError || !strings.Contains(stderr, "les-ref-dspark.gguf: is a drafter (dflash)") || strings.Contains(stderr, "ctx_other") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	file, other := &modelFile{paths: []string{"x.gguf"}}, errors.New("x.gguf: cannot make a context of 8 tokens: no memory")
	if err := whyNoPlan(file, other); err != other {
		t.Errorf("another reason has become %v", err)
	}
}

// The reference model has one matrix for embeddings and output: it stays in
// memory, as products need all of it.
func TestEmbeddingsThatAreTheOutputStayResident(t *testing.T) {
	const model = "../../models/les-ref.gguf"
	file, err := readModelFile(model)
	if err != nil || file.rowsBytes() != 0 || file.embeddings == 0 {
		t.Fatalf("%d bytes of rows, error %v", file.rowsBytes(), err)
	}
	stdout, stderr, code := lescli("verify", "-m", model, "--les-slots", "floor", "--prompt-tokens", "7", "--gen", "2")
	if code != exitOK || !strings.Contains(stdout, "identical: ") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
}

func TestBlockTensorNames(t *testing.T) {
	for name, want := range map[string]string{
		"blk.12.ffn_up_exps.weight": "ffn_up_exps.weight", "token_embd.weight": "", "blk.x.y": "", "blk.3": "",
	} {
		layer, role, ok := blockTensor(name)
		if ok != (want != "") || (ok && (role != want || layer != 12)) {
			t.Errorf("%s is %d, %q, %v", name, layer, role, ok)
		}
	}
}

// TestInspectAndEnginePlanAlike opens the engine at the floor and compares all
// but what only the running process knows. Inspect loads nothing, so its graph
// buffers are those of the graph that is not fused, which are larger here.
func TestInspectAndEnginePlanAlike(t *testing.T) {
	for _, preset := range []string{"tiny-qwen3moe", "tiny-deepseek2", "tiny-deepseek2-merged", "tiny-qwen35moe-nextn", "tiny-gptoss", "tiny-qwen3moe-scaled"} {
		model, report := tinyModel(t, preset), filepath.Join(t.TempDir(), "run.json")
		var described inspection
		stdout, stderr, code := lescli("inspect", model, "--json", "-c", "512", "-ub", "64")
		if code != exitOK {
			t.Fatal(stderr)
		}
		var ran summary
		_, stderr, code = lescli("run", "-m", model, "-p", "x", "-n", "2", "-c", "512", "-ub", "64", "--les-slots", "floor", "--json", report)
		if code != exitOK {
			t.Fatal(stderr)
		}
		text, err := os.ReadFile(report)
		if err = errors.Join(err, json.Unmarshal(text, &ran), json.Unmarshal([]byte(stdout), &described)); err != nil {
			t.Fatal(err)
		}
		type figures struct {
			layers, slots               int
			slotsBytes, dense, kv, rest int64
		}
		want := figures{
			described.MoELayers, described.FloorSlots, described.SlotBytes * int64(described.FloorSlots), described.DenseBytes,
			described.KVBytes, described.FloorBytes - described.ProcessBytes - described.ComputeBytes,
		}
		got := figures{ran.Layers, ran.Slots, ran.SlotsBytes, ran.DenseBytes, ran.KVBytes, ran.FloorBytes - ran.ProcessBytes - ran.ComputeBytes}
		if got != want {
			t.Errorf("%s: engine %+v, inspect %+v", preset, got, want)
		}
		if ran.ComputeBytes > described.ComputeBytes || 2*ran.ComputeBytes < described.ComputeBytes {
			t.Errorf("%s: graph buffers are %d, inspect says %d", preset, ran.ComputeBytes, described.ComputeBytes)
		}
		if sum := ran.DenseBytes + ran.KVBytes + ran.ComputeBytes + ran.ProcessBytes + ran.SlotsBytes; sum != ran.PlanBytes {
			t.Errorf("%s: parts are %d, plan is %d", preset, sum, ran.PlanBytes)
		}
	}
}

// llama.cpp takes the memory of recurrent states although nothing is loaded: it is in
// the cache's bytes, not in the process's once more.
func TestInspectKnowsTheMemoryOfRecurrentStates(t *testing.T) {
	for preset, recurrent := range map[string]bool{"tiny-qwen3moe": false, "tiny-qwen35moe": true} {
		model, err := llama.LoadModel(tinyModel(t, preset), llama.ModelParams{NoAlloc: true})
		if err != nil {
			t.Fatal(err)
		}
		params := llama.ContextParams{Tokens: 512, Seqs: 1}
		context := func(rollback int) int64 {
			params := params
			params.Rollback = rollback
			lctx, err := llama.NewContext(model, params)
			if err != nil {
				t.Fatal(err)
			}
			defer lctx.Close()
			return lctx.Memory().ContextBytes
		}
		bytes, err := stateBytes(model, params, context(0))
		if err != nil || (bytes > 0) != recurrent || context(3)-context(0) != 3*bytes {
			t.Errorf("%s: %d bytes of states, with three more %d, error %v", preset, bytes, context(3)-context(0), err)
		}
		model.Close()
	}
}

func TestInspectTakesTheModelAsRunDoes(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	if stdout, stderr, code := lescli("inspect", "-m", model, "--json"); code != 0 || !strings.Contains(stdout, filepath.Base(model)) {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
	expectFailure(t, exitUsage, []string{"second model"}, "inspect", "-m", model, model)
	t.Setenv(modelVariable, model)
	if stdout, stderr, code := lescli("inspect"); code != exitOK || !strings.Contains(stdout, model) {
		t.Errorf("%d: %s%s", code, stdout, stderr)
	}
}
