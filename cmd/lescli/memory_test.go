package main

import (
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
