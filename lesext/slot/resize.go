package slot

import "fmt"

// Resize sets how many slots may hold an expert, 1 to Capacity. Slots that are added are
// empty. Those that are taken away go one by one, as they still may be pinned or
// being read: the caller calls Retire for each of them at once, before any other call, and
// again for one that could not go then, when it has settled.
func (t *Table) Resize(slots int) {
	if slots < 1 || slots > len(t.entries) {
		panic(fmt.Sprintf("slot: resize to %d slots, want 1 to %d", slots, len(t.entries)))
	}
	old := t.limit
	t.limit = slots
	for s := slots; s < old; s++ {
		if t.entries[s].taken {
			t.above++
		} else {
			t.unlink(s)
		}
	}
	for s := slots - 1; s >= old; s-- { // so that the lowest one goes first
		if t.entries[s].taken {
			t.above--
			t.settle(s)
		} else {
			t.free(s)
		}
	}
}

// Retire takes the expert out of a slot above the limit. It does nothing, and says so,
// for a slot that may stay, is retired already, or is pinned or being read.
func (t *Table) Retire(slot int) (victim Victim, ok bool) {
	e := &t.entries[slot]
	if slot < t.limit || !e.taken || !e.idle() {
		return Victim{}, false
	}
	victim = Victim{Key: e.key, Evicted: true, Unused: e.unused}
	t.vacate(slot)
	*e = entry{}
	return victim, true
}
