package outfile

import (
	"errors"
	"os"
	"syscall"
)

// reserve gives the file its size and takes the room for it. A file system that
// cannot take room ahead gets the size alone.
func reserve(file *os.File, bytes int64) error {
	var err error
	for {
		if err = syscall.Fallocate(int(file.Fd()), 0, 0, bytes); err != syscall.EINTR {
			break
		}
	}
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return file.Truncate(bytes)
	}
	return err
}
