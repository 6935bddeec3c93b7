//go:build unix

package outfile

import (
	"fmt"
	"path/filepath"
	"syscall"
)

// CheckSpace refuses a file that would fill its disk, before anything is
// written.
func CheckSpace(path string, bytes int64) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &stat); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	free := int64(stat.Bavail) * int64(stat.Bsize)
	if free < bytes {
		return fmt.Errorf("%s: needs %d bytes, the disk has %d free", path, bytes, free)
	}
	return nil
}
