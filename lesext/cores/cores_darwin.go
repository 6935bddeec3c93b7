package cores

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// The system tells kinds of cores, fastest first, and not how fast they are. The
// efficiency cores of Apple's processors do a third to a half of the work of the
// others.
const (
	performanceSpeed = 100
	efficiencySpeed  = 40
)

// List returns the cores of this machine.
func List() []Core {
	kinds, err := unix.SysctlUint32("hw.nperflevels")
	if err != nil || kinds < 2 {
		return alike(runtime.NumCPU())
	}
	var list []Core
	for kind := range kinds {
		speed := int64(efficiencySpeed)
		if kind == 0 {
			speed = performanceSpeed
		}
		n, err := unix.SysctlUint32(fmt.Sprintf("hw.perflevel%d.logicalcpu", kind))
		if err != nil {
			return alike(runtime.NumCPU())
		}
		for range n {
			list = append(list, Core{ID: len(list), Speed: speed})
		}
	}
	return list
}
