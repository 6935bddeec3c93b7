package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/les-project/les/lesext/readq"
)

// written finds the only file of that name below a directory.
func written(t *testing.T, root, name string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, "les-bench-*", name))
	if err != nil || len(found) != 1 {
		t.Fatalf("%d files %s in %s, error %v", len(found), name, root, err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The same limits are asked for in the words of both versions of the interface.
func TestLimitsAreSetInBothVersionsOfControlGroups(t *testing.T) {
	old, unified := t.TempDir(), t.TempDir()
	for _, dir := range []string{"memory", "blkio"} {
		if err := os.Mkdir(filepath.Join(old, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(unified, "cgroup.controllers"), []byte("cpu io memory pids\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	limits := kernelLimits{memoryBytes: 4 << 30, bandwidthBytes: 1 << 30, device: "254:0"}
	limits.root = old
	if g, err := limits.enter(); err != nil || len(g.joinFiles()) != 2 {
		t.Fatalf("group is %+v, error %v", g, err)
	}
	if got := written(t, filepath.Join(old, "memory"), "memory.limit_in_bytes"); got != "4294967296" {
		t.Errorf("memory limit is %q", got)
	}
	if got := written(t, filepath.Join(old, "blkio"), "blkio.throttle.read_bps_device"); got != "254:0 1073741824" {
		t.Errorf("read limit is %q", got)
	}
	limits.root = unified
	if g, err := limits.enter(); err != nil || len(g.joinFiles()) != 1 {
		t.Fatalf("group is %+v, error %v", g, err)
	}
	if got := written(t, unified, "memory.max"); got != "4294967296" {
		t.Errorf("memory limit is %q", got)
	}
	if got := written(t, unified, "io.max"); got != "254:0 rbps=1073741824" {
		t.Errorf("read limit is %q", got)
	}
}

func TestLimitsThatAreNotPermittedAreRefusedByFlag(t *testing.T) {
	_, err := kernelLimits{root: t.TempDir(), memoryBytes: 1 << 30}.enter()
	if err == nil || !strings.Contains(err.Error(), "--memory") || !strings.Contains(err.Error(), "root") {
		t.Errorf("error is %v", err)
	}
	_, err = kernelLimits{root: t.TempDir(), bandwidthBytes: 1 << 30, device: "1:2"}.enter()
	if err == nil || !strings.Contains(err.Error(), "--bandwidth") || !strings.Contains(err.Error(), "1:2") {
		t.Errorf("error is %v", err)
	}
}

// groupsAllowed skips where the kernel does not let us make control groups.
func groupsAllowed(t *testing.T, limits kernelLimits) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("control groups are Linux's")
	}
	limits.root = cgroupRoot
	group, err := limits.enter()
	if err != nil {
		t.Skipf("control groups cannot be made here: %v", err)
	}
	if err := group.remove(); err != nil {
		t.Error(err)
	}
}

// leftGroups are control groups of this process that were not removed.
func leftGroups(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(cgroupRoot, "*", fmt.Sprintf("les-bench-%d-*", os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	return left
}

func TestMemoryLimitHoldsForArmsThatRead(t *testing.T) {
	groupsAllowed(t, kernelLimits{memoryBytes: 512 << 20})
	report, _, _ := bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-n", "4", "-r", "2", "--sweep", "slots=0,off", "--memory", "512M")
	read, resident := report.Arms[0], report.Arms[1]
	if read.MemoryBytes != 512<<20 || read.PeakGroupBytes <= 0 || read.PeakGroupBytes > 512<<20 || report.Processes != processesSample {
		t.Errorf("limit %d, peak %d, a process for each %s", read.MemoryBytes, read.PeakGroupBytes, report.Processes)
	}
	if resident.MemoryBytes != 0 || resident.PeakGroupBytes != 0 {
		t.Errorf("the resident arm has the limit %d", resident.MemoryBytes)
	}
	if left := leftGroups(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestProcessThatNeedsMoreThanTheLimitIsExplained(t *testing.T) {
	groupsAllowed(t, kernelLimits{memoryBytes: 4 << 20})
	expectFailure(t, exitError, []string{`arm "slots 0"`, "--memory 4.00 MiB"}, "bench", "-m", tinyModel(t, "tiny-qwen3moe"),
		"-n", "4", "-r", "1", "--sweep", "slots=0,1", "--memory", "4M")
	if left := leftGroups(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestReadLimitSlowsTheFlash(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	device, err := blockDevice(model)
	if err != nil {
		t.Skipf("no block device under the temporary directory: %v", err)
	}
	groupsAllowed(t, kernelLimits{bandwidthBytes: 1 << 30, device: device})
	report, _, _ := bench(t, "-m", model, "-n", "4", "-r", "1", "--les-slots", "0", "--bandwidth", "none,64M")
	if len(report.Bandwidth) != 2 || report.Bandwidth[1].LimitBytes != 64<<20 {
		t.Fatalf("bandwidths are %+v", report.Bandwidth)
	}
}

func TestReadLimitsThatWouldHoldAProcessAreRefused(t *testing.T) {
	for _, text := range []string{"1", "1023K", "none,1048575"} {
		for _, les := range [][]string{{"--les-slots", "0"}, {"--les", "off"}} {
			expectFailure(t, exitUsage, []string{"--bandwidth", "less than 1M"}, append([]string{"bench", "-m", "x", "--bandwidth", text}, les...)...)
		}
	}
}

func TestLiftedLimitIsTheKernelsWordForNone(t *testing.T) {
	old, unified := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(old, "blkio"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unified, "cgroup.controllers"), []byte("io\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ root, below, file, want string }{
		{old, "blkio", "blkio.throttle.read_bps_device", "254:0 0"}, {unified, "", "io.max", "254:0 rbps=max"},
	} {
		g, err := kernelLimits{root: c.root, bandwidthBytes: 1 << 30, device: "254:0"}.enter()
		if err = errors.Join(err, g.lift()); err != nil {
			t.Fatal(err)
		}
		if got := written(t, filepath.Join(c.root, c.below), c.file); got != c.want {
			t.Errorf("%s has %q, want %q", c.file, got, c.want)
		}
	}
}

// A process that waits for a throttled read ends soon after the context does.
func TestCancelEndsAThrottledProcess(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	device, err := blockDevice(model)
	if err != nil {
		t.Skipf("no block device under the temporary directory: %v", err)
	}
	files, err := readq.OpenFiles([]string{model}, readq.FilesOptions{})
	if err != nil {
		t.Fatal(err)
	}
	direct := files.Direct(0)
	files.Close()
	if !direct {
		t.Skip("reads go through the page cache here, and a limit holds up none of what is in it")
	}
	limits := kernelLimits{root: cgroupRoot, bandwidthBytes: 16 << 10, device: device}
	groupsAllowed(t, limits)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	process, err := startWorker(ctx, limits, nil)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(time.Second, cancel)
	begin := time.Now()
	_, err = process.ask(workerRequest{Probe: &probeSettings{Paths: []string{model}, Bytes: 256 << 10, Depths: []int{4}, Seconds: 1}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
	if err := process.close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the process ended after %v", took)
	}
	if left := leftGroups(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
