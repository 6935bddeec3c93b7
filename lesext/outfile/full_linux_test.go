package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of one MiB.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// Another program may take the room between the check and the end; what the
// file needs is reserved, and everything beyond it fails by name.
func TestDiskThatFillsUpIsNamedAndLeavesNothing(t *testing.T) {
	dir := smallDisk(t)
	path := filepath.Join(dir, "model")
	if _, err := Create(path, 2<<20); err == nil || !strings.Contains(err.Error(), "needs 2097152 bytes, the disk has ") {
		t.Errorf("error is %v", err)
	}
	f, err := Create(path, 1<<19)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 2<<20), 0); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v", err)
	}
	if err := f.Discard(); err != nil || len(entries(t, dir)) != 0 {
		t.Errorf("error %v, left behind: %v", err, entries(t, dir))
	}
}

func TestRoomIsTakenAtOnce(t *testing.T) {
	dir := smallDisk(t)
	f, err := Create(filepath.Join(dir, "one"), 900<<10)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Discard()
	if _, err := Create(filepath.Join(dir, "two"), 900<<10); err == nil || !strings.Contains(err.Error(), "the disk has ") {
		t.Errorf("error is %v", err)
	}
	if names := entries(t, dir); len(names) != 1 {
		t.Errorf("there are %v", names)
	}
}
