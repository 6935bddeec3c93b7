//go:build !unix

package main

import (
	"errors"
	"os"
	"os/exec"
)

// become runs a program in place of this one. What it prints has said everything.
func become(path string, args []string) error {
	cmd := exec.Command(path, args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return silentError{err}
	}
	return err
}
