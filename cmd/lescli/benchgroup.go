package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// cgroupRoot is where the kernel shows control groups.
const cgroupRoot = "/sys/fs/cgroup"

// kernelLimits are limits that the kernel keeps for a process.
type kernelLimits struct {
	root           string // cgroupRoot, but in tests
	memoryBytes    int64  // page cache included, 0 for no limit
	bandwidthBytes int64  // read from the device in a second, 0 for no limit
	device         string // major:minor of the device under the model
}

// controlGroup is a group of this process's own, to be removed when it is
// empty. A nil group stands for no limits.
type controlGroup struct {
	dirs        []string // one for each controller in version 1 of the interface
	peak        string   // file with the most memory there was, empty without a limit
	throttle    string   // file that limits reads, empty without a limit
	unthrottled string   // what lifts that limit
	memoryBytes int64
}

// groupsMade numbers the groups of this process.
var groupsMade atomic.Int64

func (l kernelLimits) none() bool { return l.memoryBytes == 0 && l.bandwidthBytes == 0 }

// enter makes a control group with the limits; nil when there are none.
func (l kernelLimits) enter() (_ *controlGroup, err error) {
	if l.none() {
		return nil, nil
	}
	g := &controlGroup{memoryBytes: l.memoryBytes}
	name := fmt.Sprintf("les-bench-%d-%d", os.Getpid(), groupsMade.Add(1))
	defer func() {
		if err != nil {
			err = errors.Join(err, g.remove())
		}
	}()
	if l.memoryBytes > 0 {
		if err = l.limitMemory(g, name); err != nil {
			return nil, fmt.Errorf("--memory: cannot limit memory (this needs root on Linux): %w", err)
		}
	}
	if l.bandwidthBytes > 0 {
		if err = l.limitReads(g, name); err != nil {
			return nil, fmt.Errorf("--bandwidth: cannot limit reads of device %s (this needs root on Linux): %w", l.device, err)
		}
	}
	return g, nil
}

func (l kernelLimits) limitMemory(g *controlGroup, name string) error {
	dir, old, err := l.makeGroup(g, "memory", "memory", name)
	if err != nil {
		return err
	}
	limit := strconv.FormatInt(l.memoryBytes, 10)
	if !old {
		g.peak = filepath.Join(dir, "memory.peak")
		return errors.Join(setLimit(dir, "memory.max", limit), setOptional(dir, "memory.swap.max", "0"))
	}
	g.peak = filepath.Join(dir, "memory.max_usage_in_bytes")
	return errors.Join(setLimit(dir, "memory.limit_in_bytes", limit), setOptional(dir, "memory.memsw.limit_in_bytes", limit))
}

func (l kernelLimits) limitReads(g *controlGroup, name string) error {
	dir, old, err := l.makeGroup(g, "blkio", "io", name)
	if err != nil {
		return err
	}
	file, limit := "io.max", fmt.Sprintf("%s rbps=%d", l.device, l.bandwidthBytes)
	g.unthrottled = l.device + " rbps=max"
	if old {
		file, limit = "blkio.throttle.read_bps_device", fmt.Sprintf("%s %d", l.device, l.bandwidthBytes)
		g.unthrottled = l.device + " 0"
	}
	g.throttle = filepath.Join(dir, file)
	return setLimit(dir, file, limit)
}

// lift ends the limit of reads. A process that waits for a read cannot be ended
// before.
func (g *controlGroup) lift() error {
	if g == nil || g.throttle == "" {
		return nil
	}
	return setLimit(filepath.Dir(g.throttle), filepath.Base(g.throttle), g.unthrottled)
}

// makeGroup makes the group's directory for a controller, by its name in
// version 1 of the interface if that is in use, else by the one in version 2.
func (l kernelLimits) makeGroup(g *controlGroup, old, new, name string) (dir string, isOld bool, err error) {
	parent := filepath.Join(l.root, old)
	if info, err := os.Stat(parent); err == nil && info.IsDir() {
		isOld = true
	} else if parent, err = l.unified(new); err != nil {
		return "", false, err
	}
	dir = filepath.Join(parent, name)
	for _, made := range g.dirs {
		if made == dir {
			return dir, isOld, nil
		}
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", false, err
	}
	g.dirs = append(g.dirs, dir)
	return dir, isOld, nil
}

// unified is the root of version 2, with the controller handed down to groups.
func (l kernelLimits) unified(controller string) (string, error) {
	for _, root := range []string{l.root, filepath.Join(l.root, "unified")} {
		text, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
		if err == nil && strings.Contains(" "+strings.TrimSpace(string(text))+" ", " "+controller+" ") {
			return root, setLimit(root, "cgroup.subtree_control", "+"+controller)
		}
	}
	return "", fmt.Errorf("%s has no controller %q", l.root, controller)
}

func setLimit(dir, file, value string) error {
	if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0o644); err != nil {
		return fmt.Errorf("set to %s: %w", value, err)
	}
	return nil
}

// setOptional sets a limit that not every kernel has.
func setOptional(dir, file, value string) error {
	if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
		return nil
	}
	return setLimit(dir, file, value)
}

// joinFiles take the number of a process that joins the group.
func (g *controlGroup) joinFiles() (files []string) {
	for _, dir := range g.dirs {
		files = append(files, filepath.Join(dir, "cgroup.procs"))
	}
	return files
}

// peakBytes is the most memory the group had, page cache included; 0 where the
// kernel does not tell.
func (g *controlGroup) peakBytes() int64 {
	if g == nil || g.peak == "" {
		return 0
	}
	text, err := os.ReadFile(g.peak)
	if err != nil {
		return 0
	}
	bytes, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return bytes
}

// removeTries bound the wait for processes that have ended but are still in
// the group.
const removeTries = 50

// remove removes the group; its processes must have ended.
func (g *controlGroup) remove() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, dir := range g.dirs {
		err := os.Remove(dir)
		for try := 0; errors.Is(err, errBusy) && try < removeTries; try++ {
			time.Sleep(20 * time.Millisecond)
			err = os.Remove(dir)
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	g.dirs = nil
	return errors.Join(errs...)
}
