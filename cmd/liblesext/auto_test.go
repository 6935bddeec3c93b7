package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// memoryGroup makes a control group with a memory limit and returns its folder.
func memoryGroup(t *testing.T, limitBytes int64) string {
	t.Helper()
	base, file := "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	if _, err := os.Stat(base); err != nil {
		base, file = "/sys/fs/cgroup", "memory.max"
	}
	group, err := os.MkdirTemp(base, "liblesext-test-")
	if err == nil {
		t.Cleanup(func() { os.Remove(group) })
		err = os.WriteFile(filepath.Join(group, file), fmt.Appendln(nil, limitBytes), 0o600)
	}
	if err != nil {
		t.Skipf("control groups cannot be made here: %v", err)
	}
	return group
}

func TestAutoStreamsWhatDoesNotFitAndSaysSo(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	resident := cycles(t, succeed(t, []string{"LES=off"}, app, model, "1").stdout)[0]
	group := memoryGroup(t, 64<<20) // the model has 58 MiB, more than nine tenths of it
	r := succeed(t, nil, "sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group, app, model, "1")
	if c := cycles(t, r.stdout)[0]; c.engine != 1 || c.hash != resident.hash {
		t.Errorf("in a group that is too small: %+v, resident %+v", c, resident)
	}
	if n := strings.Count(r.stderr, "LES: on (auto): the model has"); n != 1 {
		t.Errorf("%d lines say that and why LES is on: %s", n, r.stderr)
	}
}
