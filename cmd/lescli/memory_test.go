package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLeastLimitOfAllGroupsAboveCounts(t *testing.T) {
	root := t.TempDir()
	inner := filepath.Join(root, "outer", "inner")
	if err := os.MkdirAll(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(dir, limit string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "memory.max"), []byte(limit+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(inner, "max")
	if limit, ok := leastLimit(root, "/outer/inner", "memory.max"); ok {
		t.Errorf("no limit anywhere, but got %d", limit)
	}
	write(filepath.Join(root, "outer"), "4096")
	write(root, "8192")
	if limit, ok := leastLimit(root, "/outer/inner", "memory.max"); !ok || limit != 4096 {
		t.Errorf("limit is %d, %v", limit, ok)
	}
	if limit, ok := leastLimit(root, "/", "memory.max"); !ok || limit != 8192 {
		t.Errorf("limit of the root is %d, %v", limit, ok)
	}
}

func TestMemoryIsPlannedBelowWhatThereIs(t *testing.T) {
	available, err := availableMemory()
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
