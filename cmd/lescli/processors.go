package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// processorLimit is how many processors' time the control groups of this
// process allow it at most, as in 1.5.
func processorLimit() (float64, bool) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	least, found := 0.0, false
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 || fields[1] != "" && !strings.Contains(","+fields[1]+",", ",cpu,") {
			continue
		}
		root := "/sys/fs/cgroup"
		if fields[1] != "" {
			root = "/sys/fs/cgroup/cpu"
		}
		if limit, ok := leastProcessors(root, fields[2]); ok && (!found || limit < least) {
			least, found = limit, true
		}
	}
	return least, found
}

// leastProcessors goes up from a group to the root, as each group is bound by
// those above it.
func leastProcessors(root, group string) (float64, bool) {
	least, found := 0.0, false
	for {
		if limit, ok := groupProcessors(filepath.Join(root, group)); ok && (!found || limit < least) {
			least, found = limit, true
		}
		if group == "/" || group == "." || group == "" {
			return least, found
		}
		group = path.Dir(group)
	}
}

// groupProcessors reads one group: "quota period" in one file, or in two in the
// first version of the interface. A quota of max or -1 is none.
func groupProcessors(dir string) (float64, bool) {
	text, err := os.ReadFile(filepath.Join(dir, "cpu.max"))
	if err != nil {
		quota, errQuota := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
		period, errPeriod := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
		if errQuota != nil || errPeriod != nil {
			return 0, false
		}
		text = []byte(strings.TrimSpace(string(quota)) + " " + string(period))
	}
	var quota, period float64
	if n, _ := fmt.Sscanf(string(text), "%f %f", &quota, &period); n != 2 || quota <= 0 || period <= 0 {
		return 0, false
	}
	return quota / period, true
}
