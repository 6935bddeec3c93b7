package readq

import "golang.org/x/sys/unix"

func openHandle(path string, direct bool) (handle, error) {
	flags := 0
	if direct {
		flags = unix.O_DIRECT
	}
	return openFD(path, flags)
}

// directAlign asks statx, which tells the alignment of direct reads since Linux
// 6.1 on most file systems.
func (h fdHandle) directAlign() int64 {
	var st unix.Statx_t
	err := unix.Statx(int(h), "", unix.AT_EMPTY_PATH, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return 0
	}
	if st.Dio_offset_align == 0 {
		return -1
	}
	return int64(max(st.Dio_offset_align, st.Dio_mem_align))
}
