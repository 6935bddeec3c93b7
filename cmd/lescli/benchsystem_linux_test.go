package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childOf waits for a process to have a child.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	for range 200 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", parent, parent))
		if err != nil {
			t.Skipf("children cannot be listed here: %v", err)
		}
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			child, _ := strconv.Atoi(fields[0])
			return child
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Skip("the kernel lists no children")
	return 0
}

// Also a process that does nothing any more, and so sees no end of its input,
// ends with the bench that started it.
func TestProcessesEndWithABenchThatIsKilled(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(program, "bench", "-m", tinyModel(t, "tiny-qwen3moe"), "-n", "100000", "--sweep", "slots=0,1")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer command.Process.Kill()
	child := childOf(t, command.Process.Pid)
	if err := syscall.Kill(child, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	command.Wait()
	for range 100 {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		if errors.Is(err, os.ErrNotExist) || strings.Contains(string(text), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	syscall.Kill(child, syscall.SIGKILL)
	t.Error("the process is still there")
}
