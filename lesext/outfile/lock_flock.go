//go:build linux || darwin || freebsd

package outfile

import (
	"os"
	"syscall"
)

// lock marks a file as being written. Where a file system has no locks, nobody
// can take one to remove it either.
func lock(file *os.File) { flock(file, syscall.LOCK_EX) }

// sweepOne removes a file that nobody is writing.
func sweepOne(path string) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer file.Close()
	if flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil && isNamed(file) {
		os.Remove(path)
	}
}

func flock(file *os.File, how int) (err error) {
	for {
		if err = syscall.Flock(int(file.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
