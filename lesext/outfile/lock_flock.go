//go:build linux || darwin || freebsd

package outfile

import (
	"os"
	"syscall"
)

// lock marks a file as being written. Where a file system has no locks, nobody
// can take one to remove it either.
func lock(file *os.File) { flock(file, syscall.LOCK_EX) }

// tryLock says whether nobody is writing a file.
func tryLock(file *os.File) bool { return flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil }

func flock(file *os.File, how int) (err error) {
	for {
		if err = syscall.Flock(int(file.Fd()), how); err != syscall.EINTR {
			return err
		}
	}
}
