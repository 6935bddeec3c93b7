//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// become replaces this process by a program, so that signals and the exit code are
// the program's own.
func become(path string, args []string) error {
	return fmt.Errorf("%s: %w", path, syscall.Exec(path, args, os.Environ()))
}
