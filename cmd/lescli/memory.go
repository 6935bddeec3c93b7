package main

import (
	"errors"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/lesext/system"
)

// memoryForProcess is the budget when none is given: a share of the memory
// that is free, or of the control group's limit where that is less.
func memoryForProcess() (int64, error) {
	available := les.MemoryAvailable()
	if available == 0 {
		return 0, errors.New("the system does not tell how much memory is free")
	}
	return les.BudgetOf(available), nil
}

// peakMemory is the most memory this process had resident, in bytes; 0 where the
// system does not tell.
func peakMemory() int64 {
	usage, _ := system.UsageNow()
	return usage.PeakBytes
}
