package main

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// failing is an output that takes nothing, and counts how often it is asked to.
type failing struct {
	err    error
	writes int
}

func (f *failing) Write([]byte) (int, error) {
	f.writes++
	return 0, &os.PathError{Op: "write", Path: "/dev/stdout", Err: f.err}
}

// What could not be printed is no success, and a reader that has gone away is the
// signal that it is for other programs.
func TestOutputThatFailsIsAFailure(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	full, gone := errors.New("the disk is full"), syscall.EPIPE
	for _, args := range [][]string{
		{"--help"}, {"version"}, {"inspect", model}, {"inspect", model, "--json"}, {"verify", "-m", model, "--gen", "2", "--les-slots", "0,1"},
		{"run", "-m", model, "-p", "x", "-n", "3", "--les-slots", "0"},
	} {
		for _, test := range []struct {
			err  error
			code int
			says string
		}{{full, exitError, "lescli: standard output: write /dev/stdout: the disk is full\n"}, {gone, 128 + int(syscall.SIGPIPE), ""}} {
			var stderr bytes.Buffer
			out := &failing{err: test.err}
			code := realMain(append([]string{"lescli"}, args...), out, &stderr)
			said := stderr.String()
			if at := bytes.Index(stderr.Bytes(), []byte("lescli: ")); at >= 0 {
				said = said[at:]
			} else {
				said = ""
			}
			if code != test.code || said != test.says || out.writes != 1 {
				t.Errorf("%v: exit code %d after %d writes, %q", args, code, out.writes, said)
			}
		}
	}
}
