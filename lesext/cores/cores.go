// Package cores chooses how many threads compute, how many lanes read, and how
// much of the free memory is planned for, from what the processor is made of and
// which system it runs. The choice is a pure function; List asks the system.
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
	Threads int     // that compute
	Lanes   int     // reads in flight
	Share   float64 // of the free memory that is planned for
}

// slowShare is the speed, as a share of the fastest core's, below which a core
// does not compute. ggml's barriers make every thread wait for the slowest one:
// a thread on a core of half speed brings at most what it costs the others as
// soon as work is divided evenly. The middle cores of phones are at 0.6 to 0.8,
// their small ones at 0.15 to 0.4.
const slowShare = 0.5

// The rest is left to page tables, the Go runtime and other programs. On Android
// processes are ended before the free memory is used up, one that is not in the
// foreground first; iOS tells what is left until the limit of this one process,
// which the app's own pictures and buffers need a part of. Nothing of the two was
// measured on a phone.
var shares = map[string]float64{"android": 0.6, "ios": 0.8}

const shareDefault = 0.9

// Choose returns the defaults for a system, named as GOOS is, with these cores.
func Choose(system string, list []Core) Settings {
	s := Settings{Threads: threads(list), Lanes: sched.LanesDefault, Share: shareDefault}
	if share, known := shares[system]; known {
		s.Share = share
	}
	return s
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
