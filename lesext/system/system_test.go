package system

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryIsToldInBytes(t *testing.T) {
	total, err := TotalMemory()
	if errors.Is(err, ErrUnknown) {
		t.Skip(err)
	}
	if err != nil || total < 64<<20 || total > 1<<50 {
		t.Errorf("total memory is %d, %v", total, err)
	}
	available, err := AvailableMemory()
	if err != nil || available < 1<<20 || available > total {
		t.Errorf("%d of %d bytes are available, %v", available, total, err)
	}
}

func TestUsageGrowsWithWork(t *testing.T) {
	before, err := UsageNow()
	if errors.Is(err, ErrUnknown) {
		t.Skip(err)
	}
	if err != nil || before.PeakBytes < 1<<20 || before.PeakBytes > 1<<40 {
		t.Fatalf("%+v, %v", before, err)
	}
	block := make([]byte, 64<<20)
	sum := 0
	for i := range block {
		block[i] = byte(i)
		sum += int(block[i])
	}
	after, err := UsageNow()
	if err != nil || after.UserNS+after.SystemNS <= before.UserNS+before.SystemNS || after.PeakBytes <= before.PeakBytes {
		t.Errorf("%+v, then %+v, %v (%d)", before, after, err, sum)
	}
	// Pages that the kernel has not added up yet are in one of the two.
	if peak, err := PeakBytes(); err != nil || peak < 1<<20 || peak > after.PeakBytes+1<<20 {
		t.Errorf("peak %d, %v; with what was before the program started %d", peak, err, after.PeakBytes)
	}
	if resident, err := ResidentBytes(); !errors.Is(err, ErrUnknown) && (err != nil || resident < 1<<20 || resident > after.PeakBytes+1<<20) {
		t.Errorf("%d bytes are resident, %v; the peak is %d", resident, err, after.PeakBytes)
	}
}

func TestDiskAndFile(t *testing.T) {
	dir := t.TempDir()
	if free, err := FreeDiskBytes(dir); err != nil || free < 1<<20 {
		t.Errorf("%d bytes are free, %v", free, err)
	}
	if _, err := FreeDiskBytes(filepath.Join(dir, "none")); err == nil {
		t.Error("room in a directory that is not there")
	}
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes := DeviceBytes(info); bytes < -1 || bytes > 2<<20 {
		t.Errorf("a file of 1 MiB takes %d bytes", bytes)
	}
}
