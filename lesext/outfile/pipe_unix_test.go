//go:build unix

package outfile

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNothingTakesThePlaceOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(path, true); err == nil || !strings.Contains(err.Error(), path+": is not a regular file") {
		t.Errorf("error is %v", err)
	}
}
