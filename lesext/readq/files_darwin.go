package readq

import (
	"errors"

	"golang.org/x/sys/unix"
)

// openHandle opens a file; F_NOCACHE stands for direct reads here. It is a wish
// and has no alignment of its own.
func openHandle(path string, direct bool) (handle, error) {
	h, err := openFD(path, 0)
	if err != nil || !direct {
		return h, err
	}
	if _, err := unix.FcntlInt(uintptr(h), unix.F_NOCACHE, 1); err != nil {
		return nil, errors.Join(err, h.close())
	}
	// What lies behind an expert is not wanted. Advice only.
	_, _ = unix.FcntlInt(uintptr(h), unix.F_RDAHEAD, 0)
	return h, nil
}

func (h fdHandle) directAlign() int64 { return 0 }
