//go:build linux

package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

func TestLimitOfAddressesIsRefusedInASentence(t *testing.T) {
	program := builtProgram(t)
	for _, kib := range []string{"300000", "700000", "1200000", "2000000"} {
		var exit *exec.ExitError
		out, err := exec.Command("sh", "-c", `ulimit -v "$0" && exec "$@"`, kib, program, "version").CombinedOutput()
		if !errors.As(err, &exit) || exit.ExitCode() != exitError {
			t.Errorf("%s KiB: %v: %s", kib, err, out)
		}
		if !strings.HasPrefix(string(out), "lescli: the limit of addresses of this process (ulimit -v) leaves less than") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s KiB: it says %s", kib, out)
		}
	}
	if out, err := exec.Command("sh", "-c", `ulimit -v 2500000 && exec "$@"`, "sh", program, "version").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
