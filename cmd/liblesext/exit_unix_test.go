//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// ending starts a program that ends in this way, and returns its end.
func ending(t *testing.T, program, how string) (*exec.Cmd, chan struct{}) {
	t.Helper()
	cmd := exec.Command(program, how)
	cmd.Env = append(os.Environ(), "LES=on")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // its state says how
		close(ended)
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	return cmd, ended
}

func endsWithin(ended chan struct{}, patience time.Duration) bool {
	select {
	case <-ended:
		return true
	case <-time.After(patience):
		return false
	}
}

// What writes the log at the end of llama.cpp's programs must not keep them from it.
func TestProgramsEndWhateverBecomesOfTheirLog(t *testing.T) {
	bin, program := binDir(t), filepath.Join(t.TempDir(), "exit")
	args := []string{"-std=c++17", "-Wall", "-Wextra", "-Werror", "-o", program, "testdata/exit.cpp", "-I" + root + "/cgo/les/csrc"}
	for _, dir := range headers() {
		args = append(args, "-I"+dir)
	}
	args = append(args, "-L"+bin, "-lllama", "-lggml", "-lggml-base", "-lpthread", "-Wl,-rpath,"+bin)
	if text, err := exec.Command("c++", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	stopped, stoppedEnded := ending(t, program, "stopped")
	interrupted, interruptedEnded := ending(t, program, "stopped")
	for how, want := range map[string]int{"plain": 7, "locked": 1} {
		if cmd, ended := ending(t, program, how); !endsWithin(ended, time.Minute) {
			t.Errorf("%s: the program does not end", how)
		} else if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%s: exit code %d, want %d", how, code, want)
		}
	}
	time.Sleep(time.Second) // until it waits
	interrupted.Process.Signal(os.Interrupt)
	if !endsWithin(interruptedEnded, time.Minute) {
		t.Error("an interrupt does not end a program that waits for the reader of its log")
	} else if status := interrupted.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("it ends by %v, want the interrupt", status)
	}
	if !endsWithin(stoppedEnded, time.Minute) {
		t.Error("a program whose log nobody reads does not end")
	} else if code := stopped.ProcessState.ExitCode(); code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
}
