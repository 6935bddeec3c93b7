package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/les-project/les/cgo/les"
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

// availableMemory is the kernel's estimate of what can be used without
// swapping.
func availableMemory() (int64, error) { return memoryField("MemAvailable") }

// memoryField is one figure of the kernel's about memory, in bytes.
func memoryField(name string) (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no %s", name)
}

// peakMemory is the most memory this process had resident, in bytes.
func peakMemory() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return int64(usage.Maxrss) * maxrssUnit
}
