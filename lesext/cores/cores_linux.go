package cores

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// List returns the cores that this process may run on.
func List() []Core {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return alike(runtime.NumCPU())
	}
	return list("/sys/devices/system/cpu", set.IsSet)
}

// list reads the cores below a folder of the kernel's. The capacity is what its
// own scheduler goes by; the highest frequency stands in for it where there is
// none, as on most x86.
func list(root string, allowed func(id int) bool) []Core {
	var cores []Core
	for id := range len(unix.CPUSet{}) * 64 {
		if !allowed(id) {
			continue
		}
		dir := filepath.Join(root, fmt.Sprintf("cpu%d", id))
		speed := number(filepath.Join(dir, "cpu_capacity"))
		if speed == 0 {
			speed = number(filepath.Join(dir, "cpufreq", "cpuinfo_max_freq"))
		}
		cores = append(cores, Core{ID: id, Speed: speed})
	}
	return cores
}

// number reads a file that holds one; 0 where there is none.
func number(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
