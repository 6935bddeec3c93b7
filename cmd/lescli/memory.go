package main

import (
	"errors"
	"fmt"
	"io"

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

// memoryThereIs is the memory of the machine, or the limit of the control group where
// that is less, in bytes and in words; 0 where the system tells neither.
func memoryThereIs() (bytes int64, words string) {
	machine, _ := system.TotalMemory()
	if limit := les.MemoryGroupLimit(); limit > 0 && (machine == 0 || limit < machine) {
		return limit, formatSize(limit) + " that the control group allows"
	}
	return machine, formatSize(machine) + " that the machine has"
}

// warnOfBudget says in a line that a budget was asked for which is more than there is.
func warnOfBudget(budget, planned int64, log io.Writer) {
	if there, words := memoryThereIs(); there > 0 && budget > there {
		fmt.Fprintf(log, "warning: --les-budget: %s are more than the %s; the plan takes %s\n", formatSize(budget), words, formatSize(planned))
	}
}

// peakMemory is the most memory this process had resident, in bytes; 0 where the
// system does not tell.
func peakMemory() int64 {
	bytes, _ := system.PeakBytes()
	return bytes
}
