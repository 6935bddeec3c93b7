//go:build linux || darwin

package readq

import (
	"testing"

	"golang.org/x/sys/unix"
)

// What this system answers when it refuses direct reads, has none, or fails.
const (
	errRefused     = unix.EINVAL
	errUnsupported = unix.EOPNOTSUPP
	errDevice      = unix.EIO
)

func TestInterruptedReadIsRepeated(t *testing.T) {
	f := &faultyFile{}
	n := 0
	interrupt := func(length int) (int, error) {
		if n++; n%3 != 0 {
			return 0, unix.EINTR
		}
		return min(length, 6000), nil
	}
	f.direct = func(_, length int) (int, error) { return interrupt(length) }
	f.buffered = interrupt
	fs, _ := openFaulty(t, f, FilesOptions{})
	checkAll(t, "interrupted", fs, f)
}
