package probe

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fileSystems are the types met on devices that hold models, by the number that
// statfs returns. 4d44 also stands for exFAT mounted by older drivers.
var fileSystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
	unix.F2FS_SUPER_MAGIC: "f2fs", unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.NFS_SUPER_MAGIC: "nfs", unix.FUSE_SUPER_MAGIC: "fuse",
	unix.CIFS_SUPER_MAGIC: "cifs", unix.SMB2_SUPER_MAGIC: "smb2", unix.V9FS_MAGIC: "9p",
	unix.MSDOS_SUPER_MAGIC: "vfat", unix.EXFAT_SUPER_MAGIC: "exfat", unix.SQUASHFS_MAGIC: "squashfs",
	unix.EROFS_SUPER_MAGIC_V1: "erofs", 0x2fc12fc1: "zfs", 0x7366746e: "ntfs3",
}

// Inspect asks the system about a file.
func Inspect(path string) (System, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return System{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	name, known := fileSystems[int64(uint32(fs.Type))]
	if !known {
		name = fmt.Sprintf("unknown (%#x)", uint32(fs.Type))
	}
	return System{
		FileSystem: name, DirectAlign: directAlign(path), IOUring: ioUring(),
		HugePages: hugePages(), Processors: runtime.NumCPU(),
	}, nil
}

// directAlign asks statx; see System.
func directAlign(path string) int64 {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_DIOALIGN, &st)
	if err != nil || st.Mask&unix.STATX_DIOALIGN == 0 {
		return 0
	}
	if st.Dio_offset_align == 0 {
		return -1
	}
	return int64(max(st.Dio_offset_align, st.Dio_mem_align))
}

// ioUring makes a ring of one entry and gives it back: only the call itself
// tells whether a sandbox allows it. The parameters are 120 bytes.
func ioUring() string {
	var params [120]byte
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno.Error()
	}
	if err := unix.Close(int(fd)); err != nil {
		return err.Error()
	}
	return "allowed"
}

// hugePages returns the word in brackets of "always [madvise] never".
func hugePages() string {
	text, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text), "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}

// DropCache drops a file's pages from the page cache. Pages that are not yet
// written stay.
func DropCache(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &os.PathError{Op: "posix_fadvise", Path: path, Err: err}
	}
	return nil
}
