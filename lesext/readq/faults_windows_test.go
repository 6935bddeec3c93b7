package readq

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/les-project/les/lesext/expert"
)

// What this system answers when it refuses direct reads, has none, or fails.
const (
	errRefused     = windows.ERROR_INVALID_PARAMETER
	errUnsupported = windows.ERROR_NOT_SUPPORTED
	errDevice      = windows.ERROR_IO_DEVICE
)

// Lanes share a handle, and each has an event of its own while it reads.
func TestHandleServesManyLanesAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	want := content()
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := openHandle(path, false)
	if err != nil {
		t.Fatal(err)
	}
	var lanes sync.WaitGroup
	for lane := range 16 {
		lanes.Go(func() {
			for i := range 50 {
				off := (lane*37 + i*1009) % (len(want) - expert.Align)
				got := make([]byte, expert.Align)
				if n, err := h.pread(got, int64(off)); err != nil || string(got[:n]) != string(want[off:off+n]) {
					t.Errorf("lane %d, offset %d: %d bytes, %v", lane, off, n, err)
				}
			}
		})
	}
	lanes.Wait()
	if n, err := h.pread(make([]byte, 10), int64(len(want))); n != 0 || err != nil {
		t.Errorf("at the end of the file: %d bytes, %v", n, err)
	}
	one := make([]byte, expert.Align)
	if a := testing.AllocsPerRun(20, func() { h.pread(one, 0) }); a != 0 {
		t.Errorf("a read allocates %v times", a)
	}
	if err := h.close(); err != nil {
		t.Error(err)
	}
}
