//go:build linux || darwin

package system

import (
	"io/fs"
	"os"
	"syscall"
)

// UsageNow is all that this process has used.
func UsageNow() (Usage, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return Usage{}, os.NewSyscallError("getrusage", err)
	}
	return usageOf(&usage), nil
}

// UsageOf is what a process that has ended used.
func UsageOf(state *os.ProcessState) Usage {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return Usage{}
	}
	return usageOf(usage)
}

func usageOf(usage *syscall.Rusage) Usage {
	return Usage{
		UserNS: usage.Utime.Nano(), SystemNS: usage.Stime.Nano(),
		MajorFaults: int64(usage.Majflt), MinorFaults: int64(usage.Minflt),
		VoluntarySwitches: int64(usage.Nvcsw), ForcedSwitches: int64(usage.Nivcsw),
		PeakBytes: int64(usage.Maxrss) * peakUnit,
	}
}

// FreeDiskBytes is the room for files in a directory.
func FreeDiskBytes(dir string) (int64, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil
}

// DeviceBytes is the room that a file takes on its device, less than its size
// where it has holes; -1 when that is not told.
func DeviceBytes(info fs.FileInfo) int64 {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int64(stat.Blocks) * 512 // the unit of st_blocks on every system
}
