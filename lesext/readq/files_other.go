//go:build !linux && !darwin && !windows

package readq

import (
	"errors"
	"io"
	"os"
)

// plainHandle is a file without direct reads.
type plainHandle struct{ *os.File }

func openHandle(path string, direct bool) (handle, error) {
	if direct {
		return nil, errors.ErrUnsupported
	}
	f, err := os.Open(path)
	return plainHandle{f}, err
}

func (h plainHandle) pread(p []byte, off int64) (int, error) {
	n, err := h.ReadAt(p, off)
	if err == io.EOF {
		err = nil
	}
	return n, err
}

func (h plainHandle) size() (int64, error) {
	info, err := h.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (h plainHandle) directAlign() int64 { return 0 }

func (h plainHandle) close() error { return h.Close() }

func pread(h handle, p []byte, off int64) (int, error) { return h.pread(p, off) }

// refusal is never the case: no file is read directly.
func refusal(error) bool { return false }
