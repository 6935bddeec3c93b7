package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// errBusy is why a control group that still has processes cannot be removed.
var errBusy error = unix.EBUSY

// blockDevice is the whole disk under a file as major:minor, which is what
// reads can be limited for.
func blockDevice(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	device := fmt.Sprintf("%d:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
	dir, err := filepath.EvalSymlinks(filepath.Join("/sys/dev/block", device))
	if err != nil {
		return "", fmt.Errorf("%s: its file system has no block device: %w", path, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "partition")); err == nil {
		dir = filepath.Dir(dir)
	}
	text, err := os.ReadFile(filepath.Join(dir, "dev"))
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(text)), nil
}

// dieWithParent has the kernel kill a process when the thread that started it
// ends. That is the main thread, which commands are locked to.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
