//go:build linux

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// faultRig is the built program under strace.
type faultRig struct{ strace, program, trace string }

func newFaultRig(t *testing.T) faultRig {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	if err := exec.Command(strace, "-o", "/dev/null", "true").Run(); err != nil {
		t.Skipf("strace is not allowed here: %v", err)
	}
	rig := faultRig{strace, filepath.Join(t.TempDir(), "lescli"), filepath.Join(t.TempDir(), "trace")}
	if out, err := exec.Command("go", "build", "-o", rig.program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return rig
}

// run runs the program with faults in its positioned reads of the file, which are
// counted for each thread by itself. Other files are not counted: an emulator
// reads the program and its libraries, on the thread that decodes later.
func (r faultRig) run(t *testing.T, file, inject string, args ...string) (out string, code int) {
	t.Helper()
	full := append([]string{"-f", "-o", r.trace, "-P", file, "-e", "trace=pread64", "-e", "inject=pread64:" + inject, r.program}, args...)
	text, err := exec.Command(r.strace, full...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(text), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(text), exitOK
}

func TestFaultsOfTheSystem(t *testing.T) {
	rig, model := newFaultRig(t), tinyModel(t, "tiny-qwen3moe")
	// The thread that decodes reads a row of embeddings for each token: with few tokens at
	// a time, the tenth read of a thread is one of an expert first.
	verify := []string{"verify", "-m", model, "--les-slots", "floor", "--prompt-tokens", "4", "--gen", "8"}
	cases := map[string]struct {
		inject string
		code   int
		want   []string
	}{
		"interrupted":          {"error=EINTR:when=20+7", exitOK, []string{"identical: "}},
		"direct refused late":  {"error=EINVAL:when=10", exitOK, []string{"identical: "}},
		"failing now and then": {"error=EIO:when=10+50", exitOK, []string{"identical: "}},
		"failing for good":     {"error=EIO:when=10+", exitError, []string{model, " at 0x", " bytes: input/output error", "expert ", "of block "}},
		"device gone for good": {"error=ENODEV:when=10+", exitError, []string{model, "no such device"}},
		"nothing left to read": {"retval=0:when=10+", exitError, []string{model, "unexpected EOF"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			out, code := rig.run(t, model, c.inject, verify...)
			if code != c.code {
				t.Errorf("exit code %d, want %d: %s", code, c.code, out)
			}
			for _, part := range c.want {
				if !strings.Contains(out, part) {
					t.Errorf("output does not have %q: %s", part, out)
				}
			}
			if n := strings.Count(out, "page cache"); n > 1 {
				t.Errorf("%d lines on the fall back: %s", n, out)
			}
			if strings.Contains(out, "goroutine ") {
				t.Errorf("the program crashed: %s", out)
			}
		})
	}
}
