package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/system"
)

// machineReport says where and with what figures were measured.
type machineReport struct {
	Processor   string `json:"processor"`
	Processors  int    `json:"processors"`
	MemoryBytes int64  `json:"memory_bytes"`
	System      string `json:"system"` // operating system, architecture and kernel
	Device      string `json:"device"` // under the model, as the system calls it
	Lescli      string `json:"lescli"` // commit
	LlamaCpp    string `json:"llama_cpp"`
	Go          string `json:"go"`
}

// thisMachine leaves empty what the system does not tell.
func thisMachine(model string) machineReport {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	memory, _ := system.TotalMemory()
	return machineReport{
		Processor: processorName(), Processors: runtime.NumCPU(), MemoryBytes: memory,
		System: strings.TrimSpace(runtime.GOOS + " " + runtime.GOARCH + " " + string(kernel)),
		Device: deviceName(model), Lescli: commit, LlamaCpp: llama.Version(), Go: runtime.Version(),
	}
}

func processorName() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, found := strings.CutPrefix(line, "model name"); found {
			return strings.Trim(name, "\t :\n")
		}
	}
	return ""
}

// deviceName is the device under a file, with what its driver calls it.
func deviceName(path string) string {
	number, err := blockDevice(path)
	if err != nil {
		return ""
	}
	dir, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", number))
	if err != nil {
		return number
	}
	name, _ := os.ReadFile(filepath.Join(dir, "device", "model"))
	return strings.TrimSpace(filepath.Base(dir) + " " + strings.TrimSpace(string(name)))
}
