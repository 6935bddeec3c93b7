package probe

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInspectTellsOfThisSystem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Inspect(path)
	if err != nil || s.FileSystem == "" || s.Processors < 1 || s.IOUring == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if err := DropCache(path); err != nil {
		t.Error(err)
	}
	if _, err := Inspect(path + ".none"); !os.IsNotExist(err) {
		t.Errorf("error is %v", err)
	}
	if err := DropCache(path + ".none"); !os.IsNotExist(err) {
		t.Errorf("error is %v", err)
	}
}

// A leaked ring would be seen as a descriptor more each time.
func TestAskingForIOUringLeavesNoDescriptor(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	ioUring()
	before := count()
	for range 10 {
		ioUring()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}
