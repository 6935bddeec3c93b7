package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// budgetShare is the part of the free memory that is planned for by default;
// the rest is left to the page tables, the Go runtime and other programs.
const budgetShare = 0.9

// memoryForProcess is the budget when none is given: a share of the memory
// that is free, or of the control group's limit where that is less.
func memoryForProcess() (int64, error) {
	available, err := availableMemory()
	if err != nil {
		return 0, err
	}
	if limit, ok := controlGroupLimit(); ok {
		available = min(available, limit)
	}
	return int64(budgetShare * float64(available)), nil
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

// controlGroupLimit is the least memory limit of this process's control groups,
// in either version of the interface.
func controlGroupLimit() (int64, bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	least, found := int64(0), false
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		if fields[1] == "memory" {
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		} else if fields[1] != "" {
			continue
		}
		if limit, ok := leastLimit(root, fields[2], file); ok && (!found || limit < least) {
			least, found = limit, true
		}
	}
	return least, found
}

// leastLimit goes up from a group to the root, as each group is bound by those
// above it.
func leastLimit(root, group, file string) (int64, bool) {
	least, found := int64(0), false
	for {
		text, err := os.ReadFile(filepath.Join(root, group, file))
		if err == nil {
			limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
			if err == nil && (!found || limit < least) {
				least, found = limit, true
			}
		}
		if group == "/" || group == "." || group == "" {
			return least, found
		}
		group = filepath.Dir(group)
	}
}

// peakMemory is the most memory this process had resident, in bytes.
func peakMemory() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return int64(usage.Maxrss) * maxrssUnit
}
