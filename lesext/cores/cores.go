// Package cores chooses how many threads compute and how many lanes read, from what
// the processor is made of. The choice is a pure function; List asks the system.
package cores

import "github.com/les-project/les/lesext/sched"

// Core is one core that this process may use.
type Core struct {
	ID int
	// Speed is relative to the other cores, in any unit; 0 when unknown.
	Speed int64
}

// Settings are the defaults for a machine.
type Settings struct {
	Threads int // that compute
	Lanes   int // reads in flight
}

// slowShare is the speed, as a share of the fastest core's, below which a core
// does not compute. ggml's barriers make every thread wait for the slowest one:
// a thread on a core of half speed brings at most what it costs the others as
// soon as work is divided evenly. The middle cores of phones are at 0.6 to 0.8,
// their small ones at 0.15 to 0.4.
const slowShare = 0.5

// Choose returns the defaults for these cores. Lanes are as many on every system:
// they spend their time waiting, and flash of phones wants as many reads in flight
// as other flash does.
func Choose(list []Core) Settings {
	return Settings{Threads: threads(list), Lanes: sched.LanesDefault}
}

// threads counts the cores that are fast enough. Cores of unknown speed all are.
func threads(list []Core) int {
	fastest := int64(0)
	for _, core := range list {
		fastest = max(fastest, core.Speed)
	}
	n := 0
	for _, core := range list {
		if core.Speed == 0 || float64(core.Speed) >= slowShare*float64(fastest) {
			n++
		}
	}
	return max(1, n)
}

// alike returns n cores of unknown speed.
func alike(n int) []Core {
	list := make([]Core, n)
	for i := range list {
		list[i].ID = i
	}
	return list
}
