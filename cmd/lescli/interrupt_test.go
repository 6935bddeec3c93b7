//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
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

func TestInterruptEndsARunWithItsSummary(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	interruptSoon(t)
	_, stderr, code := lescli("run", "-m", model, "-p", "Hello", "-n", "1000000", "-c", "1000000", "--les-slots", "2")
	if code != exitOK || !strings.Contains(stderr, "stopped: interrupted") || !strings.Contains(stderr, "decode: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestInterruptEndsAMeasurementAndLeavesNothing(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{{"bench", "-n", "100000"}, {"bench", "-n", "100000", "--sweep", "slots=0,1"}, {"verify", "--gen", "100000"}} {
		interruptSoon(t)
		stdout, stderr, code := lescli(append(args, "-m", model)...)
		if code != exitError || !strings.Contains(stderr, "lescli: interrupted") || stdout != "" {
			t.Errorf("%s: exit code %d: %s%s", args[0], code, stdout, stderr)
		}
	}
	if entries, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestBenchStopsForEverySignalThatAsksIt(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		signalSoon(t, signal)
		stdout, stderr, code := lescli("bench", "-m", model, "-n", "100000", "--sweep", "slots=0,1")
		if code != exitError || !strings.Contains(stderr, "lescli: interrupted") || stdout != "" {
			t.Errorf("%v: exit code %d: %s%s", signal, code, stdout, stderr)
		}
	}
}

func TestSignalsLeaveNoUnfinishedFile(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		dir := t.TempDir()
		for _, args := range [][]string{
			{"trace", "-m", model, "-o", filepath.Join(dir, "routes.trace"), "-n", "1000000"}, {"doctor", "--seconds", "60", dir},
		} {
			signalSoon(t, signal)
			stdout, stderr, code := lescli(args...)
			if code != exitError || !strings.Contains(stderr, "lescli: interrupted") || stdout != "" {
				t.Errorf("%s, %v: exit code %d: %s%s", args[0], signal, code, stdout, stderr)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
				t.Errorf("%s, %v: left behind: %v, %v", args[0], signal, entries, err)
			}
		}
	}
}

func TestHangupEndsARunWithItsSummary(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	signalSoon(t, syscall.SIGHUP)
	_, stderr, code := lescli("run", "-m", model, "-p", "Hello", "-n", "1000000", "-c", "1000000", "--les-slots", "2")
	if code != exitOK || !strings.Contains(stderr, "stopped: interrupted") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
