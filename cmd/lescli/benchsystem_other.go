//go:build !linux

package main

import (
	"errors"
	"syscall"
)

var errBusy error = syscall.EBUSY

func blockDevice(string) (string, error) {
	return "", errors.New("limiting the reads of a device needs Linux")
}

func dieWithParent() *syscall.SysProcAttr { return nil }
