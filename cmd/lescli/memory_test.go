package main

import (
	"regexp"
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

func TestBudgetBeyondTheMemoryThereIsIsWarnedOf(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	warning := regexp.MustCompile(`(?m)^warning: --les-budget: 1024\.00 TiB are more than the \S+ \S+ that the (machine has|control group allows); the plan takes \S+ MiB$`)
	for budget, warned := range map[string]bool{"1024T": true, "1G": false} {
		if _, stderr, code := lescli("run", "-m", model, "-p", "x", "-n", "1", "--les-budget", budget); code != exitOK || warning.MatchString(stderr) != warned {
			t.Errorf("budget %s: exit code %d, %s", budget, code, stderr)
		}
	}
}
