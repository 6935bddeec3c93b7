package system

import (
	"io/fs"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// The calls that golang.org/x/sys/windows does not have.
var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	globalMemoryStatusEx = kernel32.NewProc("GlobalMemoryStatusEx")
	processMemoryInfo    = kernel32.NewProc("K32GetProcessMemoryInfo")
)

// memoryStatus is MEMORYSTATUSEX.
type memoryStatus struct {
	length, load                                   uint32
	total, available, totalPage, availablePage     uint64
	totalVirtual, availableVirtual, availableExtra uint64
}

// memoryCounters is PROCESS_MEMORY_COUNTERS.
type memoryCounters struct {
	length, faults                 uint32
	peak, resident                 uintptr
	peakPagedPool, pagedPool       uintptr
	peakNonPagedPool, nonPagedPool uintptr
	pageFile, peakPageFile         uintptr
}

// On both sides the sizes are those of the 64-bit system.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(memoryStatus{})-64]
	_ = [1]struct{}{}[unsafe.Sizeof(memoryCounters{})-72]
)

func readMemoryStatus() (memoryStatus, error) {
	status := memoryStatus{length: uint32(unsafe.Sizeof(memoryStatus{}))}
	if ok, _, err := globalMemoryStatusEx.Call(uintptr(unsafe.Pointer(&status))); ok == 0 {
		return status, os.NewSyscallError("GlobalMemoryStatusEx", err)
	}
	return status, nil
}

func readMemoryCounters() (memoryCounters, error) {
	counters := memoryCounters{length: uint32(unsafe.Sizeof(memoryCounters{}))}
	ok, _, err := processMemoryInfo.Call(uintptr(windows.CurrentProcess()), uintptr(unsafe.Pointer(&counters)), uintptr(counters.length))
	if ok == 0 {
		return counters, os.NewSyscallError("GetProcessMemoryInfo", err)
	}
	return counters, nil
}

// AvailableMemory is what can be used without paging, and without passing the
// limit for all memory that programs are promised.
func AvailableMemory() (int64, error) {
	status, err := readMemoryStatus()
	return int64(min(status.available, status.availablePage)), err
}

// TotalMemory is the memory of the machine.
func TotalMemory() (int64, error) {
	status, err := readMemoryStatus()
	return int64(status.total), err
}

// ResidentBytes is the memory that this process holds now.
func ResidentBytes() (int64, error) {
	counters, err := readMemoryCounters()
	return int64(counters.resident), err
}

// AnonymousBytes is ResidentBytes: what is the contents of files is not told.
func AnonymousBytes() (int64, error) { return ResidentBytes() }

// UsageNow is all that this process has used. Faults are not told apart and
// switches not counted.
func UsageNow() (Usage, error) {
	counters, err := readMemoryCounters()
	if err != nil {
		return Usage{}, err
	}
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return Usage{}, os.NewSyscallError("GetProcessTimes", err)
	}
	return Usage{
		UserNS: spanNS(user.HighDateTime, user.LowDateTime), SystemNS: spanNS(kernel.HighDateTime, kernel.LowDateTime),
		MinorFaults: int64(counters.faults), PeakBytes: int64(counters.peak),
	}, nil
}

// UsageOf is what a process that has ended used; its memory is not told.
func UsageOf(state *os.ProcessState) Usage {
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return Usage{}
	}
	return Usage{
		UserNS:   spanNS(usage.UserTime.HighDateTime, usage.UserTime.LowDateTime),
		SystemNS: spanNS(usage.KernelTime.HighDateTime, usage.KernelTime.LowDateTime),
	}
}

// spanNS converts a span of time in units of 100 ns.
func spanNS(high, low uint32) int64 { return (int64(high)<<32 | int64(low)) * 100 }

// FreeDiskBytes is the room for files in a directory.
func FreeDiskBytes(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(free), nil
}

// DeviceBytes is not told.
func DeviceBytes(fs.FileInfo) int64 { return -1 }
