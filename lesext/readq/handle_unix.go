//go:build linux || darwin

package readq

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fdHandle is a file descriptor. An *os.File is of no use here: its ReadAt
// continues a short read at any offset, which a direct read must not.
type fdHandle int

func openFD(path string, flags int) (fdHandle, error) {
	for {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|flags, 0)
		if err != unix.EINTR {
			return fdHandle(fd), err
		}
	}
}

func (h fdHandle) pread(p []byte, off int64) (int, error) {
	return unix.Pread(int(h), p, off)
}

func (h fdHandle) size() (int64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(h), &st)
	return st.Size, err
}

func (h fdHandle) close() error { return unix.Close(int(h)) }

// pread retries a read that a signal interrupted.
func pread(h handle, p []byte, off int64) (int, error) {
	for {
		n, err := h.pread(p, off)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// refusal reports whether an error means that direct reads are not possible, as
// opposed to a read that failed.
func refusal(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EOPNOTSUPP)
}
