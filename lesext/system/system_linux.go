package system

import (
	"fmt"
	"os"
	"strings"
)

// peakUnit is what the kernel counts the peak of a process in.
const peakUnit = 1024

// AvailableMemory is what can be used without swapping, by the kernel's estimate.
func AvailableMemory() (int64, error) { return field("/proc/meminfo", "MemAvailable") }

// TotalMemory is the memory of the machine.
func TotalMemory() (int64, error) { return field("/proc/meminfo", "MemTotal") }

// ResidentBytes is the memory that this process holds now.
func ResidentBytes() (int64, error) { return field("/proc/self/status", "VmRSS") }

// AnonymousBytes is what of it is not the contents of files, which the system may
// drop.
func AnonymousBytes() (int64, error) { return field("/proc/self/status", "RssAnon") }

// PeakBytes is the most memory that this process had resident. What getrusage says is
// more where the program that started it had more.
func PeakBytes() (int64, error) { return field("/proc/self/status", "VmHWM") }

// field finds a figure in a text of the kernel's whose lines are "Name: 12 kB",
// and returns it in bytes.
func field(path, name string) (int64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, name+": %d kB", &kib); n == 1 {
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, name)
}
