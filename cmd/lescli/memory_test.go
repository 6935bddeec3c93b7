package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/system"
)

func TestMemoryIsPlannedBelowWhatThereIs(t *testing.T) {
	available, err := system.AvailableMemory()
	if err != nil {
		t.Skip("this system does not tell: ", err)
	}
	budget, err := memoryForProcess()
	if err != nil || budget <= 0 || budget > available {
		t.Errorf("budget is %d of %d, %v", budget, available, err)
	}
	if peakMemory() < 1<<20 {
		t.Errorf("peak memory is %d", peakMemory())
	}
}

// TestPlanHolds runs processes of their own, with a prompt that fills the
// graph buffers of model and drafter.
func TestPlanHolds(t *testing.T) {
	hybrid := tinyModel(t, "tiny-qwen35moe-nextn")
	prompt := strings.Repeat(draftPrompt, 1+3000/len(draftPrompt))
	for _, test := range []struct {
		name, model string
		flags       []string
	}{
		{"no drafts", hybrid, []string{"--ubatch", "2048"}},
		{"draft-dspark", referenceModel, []string{"--draft", referenceDrafter()}},
		{"draft-mtp", hybrid, []string{"--draft-type", "draft-mtp"}},
		{"the model itself", hybrid, []string{"--draft", hybrid, "--draft-type", "draft-simple"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			report := filepath.Join(t.TempDir(), "report.json")
			run := append([]string{"run", "-m", test.model, "-p", prompt, "-n", "30", "-c", "4096", "--les-slots", "floor", "--json", report}, test.flags...)
			if out, err := exec.Command(os.Args[0], run...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var summary struct {
				Plan    int64 `json:"plan_bytes"`
				Process int64 `json:"process_bytes"`
				Peak    int64 `json:"peak_rss_bytes"`
			}
			text, err := os.ReadFile(report)
			if err == nil {
				err = json.Unmarshal(text, &summary)
			}
			if err != nil {
				t.Fatal(err)
			}
			if summary.Peak == 0 || summary.Peak > summary.Plan {
				t.Errorf("peak of %d bytes, planned were %d, of them process %d", summary.Peak, summary.Plan, summary.Process)
			}
		})
	}
}

func TestBudgetBeyondTheMemoryThereIsIsWarnedOf(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	warning := regexp.MustCompile(`(?m)^warning: --les-budget: 1024\.00 TiB are more than the \S+ \S+ that the (machine has|control group allows); the plan takes \S+ MiB$`)
	for budget, warned := range map[string]bool{"1024T": true, "1G": false} {
		if _, stderr, code := lescli("run", "-m", model, "-p", "x", "-n", "1", "--les-budget", budget); code != exitOK || warning.MatchString(stderr) != warned {
			t.Errorf("budget %s: exit code %d, %s", budget, code, stderr)
		}
	}
}
