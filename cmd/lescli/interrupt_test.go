//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// interruptSoon sends this process what Ctrl-C sends, once the command has
// had time to start.
func interruptSoon(t *testing.T) {
	t.Helper()
	signalSoon(t, syscall.SIGINT)
}

func signalSoon(t *testing.T, signal syscall.Signal) {
	t.Helper()
	timer := time.AfterFunc(300*time.Millisecond, func() { syscall.Kill(os.Getpid(), signal) })
	t.Cleanup(func() { timer.Stop() })
}

// stopped is the exit code of a program that a signal asked to stop.
func stopped(signal syscall.Signal) int { return 128 + int(signal) }

// signaller sends this process a signal once so many pieces of text were written.
type signaller struct {
	signal syscall.Signal
	pieces int
}

func (s *signaller) Write(p []byte) (int, error) {
	if s.pieces--; s.pieces == 0 {
		syscall.Kill(os.Getpid(), s.signal)
	}
	return len(p), nil
}

// heard are those of the signals that this process was not started to ignore, as nohup
// has it: lescli goes on ignoring them.
func heard(signals ...syscall.Signal) []syscall.Signal {
	return slices.DeleteFunc(signals, func(s syscall.Signal) bool { return signal.Ignored(s) })
}

func TestSignalEndsARunWithItsSummaryAndItsFiles(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, signal := range heard(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) {
		dir := t.TempDir()
		warmFile, report := filepath.Join(dir, "warm"), filepath.Join(dir, "report.json")
		var stderr bytes.Buffer
		code := realMain([]string{"lescli", "run", "-m", model, "-p", "Hello", "-n", "1000000", "-c", "50000", "--les-slots", "2",
			"--les-warm", warmFile, "--json", report}, &signaller{signal, 5}, &stderr)
		if code != stopped(signal) || !strings.Contains(stderr.String(), "stopped: interrupted") || !strings.Contains(stderr.String(), "decode: ") {
			t.Errorf("%v: exit code %d: %s", signal, code, &stderr)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("%v: there are %v, %v", signal, entries, err)
		}
		if !strings.Contains(string(mustRead(t, report)), `"stop": "interrupted"`) || len(mustRead(t, warmFile)) == 0 {
			t.Errorf("%v: the report is %s", signal, mustRead(t, report))
		}
	}
}

func TestInterruptEndsAMeasurementAndLeavesNothing(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{{"bench", "-n", "100000"}, {"bench", "-n", "100000", "--sweep", "slots=0,1"}, {"verify", "--gen", "100000"}} {
		interruptSoon(t)
		stdout, stderr, code := lescli(append(args, "-m", model)...)
		if code != stopped(syscall.SIGINT) || !strings.Contains(stderr, "lescli: interrupted") || stdout != "" {
			t.Errorf("%s: exit code %d: %s%s", args[0], code, stdout, stderr)
		}
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBenchStopsForEverySignalThatAsksIt(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, signal := range heard(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT) {
		signalSoon(t, signal)
		stdout, stderr, code := lescli("bench", "-m", model, "-n", "100000", "--sweep", "slots=0,1")
		if code != stopped(signal) || !strings.Contains(stderr, "lescli: interrupted") || stdout != "" {
			t.Errorf("%v: exit code %d: %s%s", signal, code, stdout, stderr)
		}
	}
}

func TestSignalsLeaveNoUnfinishedFile(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, signal := range heard(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE) {
		dir := t.TempDir()
		t.Setenv("TMPDIR", dir)
		for _, args := range [][]string{
			{"trace", "-m", model, "-o", filepath.Join(dir, "routes.trace"), "-n", "1000000"}, {"doctor", "--seconds", "60", dir},
			{"verify", "-m", model, "--gen", "100000"},
		} {
			signalSoon(t, signal)
			stdout, stderr, code := lescli(args...)
			if code != stopped(signal) || !strings.Contains(stderr, "lescli: interrupted") || stdout != "" {
				t.Errorf("%s, %v: exit code %d: %s%s", args[0], signal, code, stdout, stderr)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
				t.Errorf("%s, %v: left behind: %v, %v", args[0], signal, entries, err)
			}
		}
	}
}

func TestInterruptionHidesNoOtherError(t *testing.T) {
	full := errors.New("out.part: cannot be removed")
	for _, err := range []error{
		errors.Join(fmt.Errorf("repacking: %w", context.Canceled), full),
		fmt.Errorf("writing: %w", errors.Join(full, llama.ErrCancelled)),
		silentError{errors.Join(context.Canceled, full)},
	} {
		var stderr bytes.Buffer
		caught := &caughtSignal{}
		caught.number.Store(int32(syscall.SIGTERM))
		if code := caught.tell(err, &stderr); code != stopped(syscall.SIGTERM) || strings.Count(stderr.String(), full.Error()) != 1 {
			t.Errorf("%v: exit code %d: %s", err, code, &stderr)
		}
	}
}
