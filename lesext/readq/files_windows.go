package readq

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// eventsMax is how many idle events a handle keeps: more than there are lanes.
const eventsMax = 64

// overlapped is what one read in flight needs. The event is set when it ends.
type overlapped struct {
	windows.Overlapped
	n uint32
}

// winHandle is a file opened for overlapped reads: the system does the reads of
// an ordinary handle one after the other, whoever asks.
type winHandle struct {
	windows.Handle
	idle chan *overlapped // events to be used again; nothing is allocated once each lane has had one
}

func openHandle(path string, direct bool) (handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return nil, err
	}
	flags := uint32(windows.FILE_FLAG_OVERLAPPED)
	if direct {
		flags |= windows.FILE_FLAG_NO_BUFFERING
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(name, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING, flags, 0)
	if err != nil {
		return nil, err
	}
	return &winHandle{Handle: h, idle: make(chan *overlapped, eventsMax)}, nil
}

func (h *winHandle) pread(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	o, err := h.take()
	if err != nil {
		return 0, err
	}
	o.Offset, o.OffsetHigh = uint32(off), uint32(off>>32)
	err = windows.ReadFile(h.Handle, p, nil, &o.Overlapped)
	if err == nil || errors.Is(err, windows.ERROR_IO_PENDING) {
		err = windows.GetOverlappedResult(h.Handle, &o.Overlapped, &o.n, true)
	}
	n := int(o.n)
	h.give(o)
	if errors.Is(err, windows.ERROR_HANDLE_EOF) {
		return 0, nil
	}
	return n, err
}

// take returns an event that is not in use.
func (h *winHandle) take() (*overlapped, error) {
	select {
	case o := <-h.idle:
		*o = overlapped{Overlapped: windows.Overlapped{HEvent: o.HEvent}}
		return o, nil
	default:
	}
	event, err := windows.CreateEvent(nil, 1, 0, nil)
	if err != nil {
		return nil, os.NewSyscallError("CreateEvent", err)
	}
	return &overlapped{Overlapped: windows.Overlapped{HEvent: event}}, nil
}

func (h *winHandle) give(o *overlapped) {
	select {
	case h.idle <- o:
	default:
		windows.CloseHandle(o.HEvent)
	}
}

func (h *winHandle) size() (int64, error) {
	var info windows.ByHandleFileInformation
	err := windows.GetFileInformationByHandle(h.Handle, &info)
	return int64(info.FileSizeHigh)<<32 | int64(info.FileSizeLow), err
}

// storageInfo is FILE_STORAGE_INFO.
type storageInfo struct {
	logicalSector, physicalForAtomicity, physicalForPerformance, effective uint32
	flags, alignmentOfSectors, alignmentOfPartition                        uint32
}

// directAlign is the size of a sector as the device shows it.
func (h *winHandle) directAlign() int64 {
	const class = 16 // FileStorageInfo
	var info storageInfo
	err := windows.GetFileInformationByHandleEx(h.Handle, class, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err != nil {
		return 0
	}
	return int64(info.logicalSector)
}

func (h *winHandle) close() error {
	err := windows.CloseHandle(h.Handle)
	for {
		select {
		case o := <-h.idle:
			err = errors.Join(err, windows.CloseHandle(o.HEvent))
		default:
			return err
		}
	}
}

func pread(h handle, p []byte, off int64) (int, error) { return h.pread(p, off) }

// refusal reports whether an error means that direct reads are not possible, as
// opposed to a read that failed.
func refusal(err error) bool {
	return errors.Is(err, windows.ERROR_INVALID_PARAMETER) || errors.Is(err, windows.ERROR_NOT_SUPPORTED)
}
