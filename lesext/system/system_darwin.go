package system

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// peakUnit is what the kernel counts the peak of a process in.
const peakUnit = 1

// AvailableMemory is the share of memory that the system itself calls free: it
// counts what it can reclaim. An iOS app has a limit of its own besides, which
// only a C call tells; see les_os_memory_available.
func AvailableMemory() (int64, error) {
	total, err := TotalMemory()
	if err != nil {
		return 0, err
	}
	percent, err := unix.SysctlUint32("kern.memorystatus_level")
	if err != nil {
		return 0, fmt.Errorf("kern.memorystatus_level: %w", err)
	}
	return total / 100 * int64(percent), nil
}

// TotalMemory is the memory of the machine.
func TotalMemory() (int64, error) {
	total, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, fmt.Errorf("hw.memsize: %w", err)
	}
	return int64(total), nil
}

// ResidentBytes is not told without a Mach call.
func ResidentBytes() (int64, error) { return 0, ErrUnknown }

// AnonymousBytes is ResidentBytes: what is the contents of files is not told.
func AnonymousBytes() (int64, error) { return ResidentBytes() }
