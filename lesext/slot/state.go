package slot

import (
	"fmt"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/internal/invariants"
)

// Slots returns how many slots may hold an expert.
func (t *Table) Slots() int { return t.limit }

// Capacity returns the most slots there can be.
func (t *Table) Capacity() int { return len(t.entries) }

// Retiring returns how many slots at and above Slots still hold an expert.
func (t *Table) Retiring() int { return t.above }

// Key returns the expert a slot belongs to.
func (t *Table) Key(slot int) (k expert.Key, ok bool) {
	return t.entries[slot].key, t.entries[slot].taken
}

// State returns the state of a slot.
func (t *Table) State(slot int) State {
	switch e := &t.entries[slot]; {
	case !e.taken && slot >= t.limit:
		return Retired
	case !e.taken:
		return Empty
	case e.failed:
		return Failed
	case e.reading != 0:
		return Reading
	}
	return Ready
}

// Ready returns the mask of spans in place.
func (t *Table) Ready(slot int) uint32 { return uint32(t.entries[slot].ready) }

// Reading returns the mask of spans with a read queued or in flight.
func (t *Table) Reading(slot int) uint32 { return uint32(t.entries[slot].reading) }

// Pins returns the pin count.
func (t *Table) Pins(slot int) int { return int(t.entries[slot].pins) }

// Unused returns how many slots hold, or wait for, a prefetched expert that is
// neither used nor given up.
func (t *Table) Unused() int { return t.unused }

// Word returns the word to publish for a slot.
func (t *Table) Word(slot int) uint32 {
	e := t.entry(slot)
	return Word(slot, uint32(e.ready), e.failed)
}

// entry returns the entry of a slot that must hold an expert.
func (t *Table) entry(slot int) *entry {
	e := &t.entries[slot]
	if !e.taken {
		panic(fmt.Sprintf("slot: slot %d is empty", slot))
	}
	return e
}

// choose returns the slot that Acquire takes, or -1.
func (t *Table) choose(purpose Purpose) int {
	if s := t.lists.first(listFree); s >= 0 {
		return int(s)
	}
	if purpose == Warm {
		return -1
	}
	if s := t.lists.first(listWasted); s >= 0 {
		return int(s)
	}
	if s := t.policy.Victim(t.current); s >= 0 || purpose == Prefetch {
		return s
	}
	return t.farthestGuess()
}

// farthestGuess returns an idle guessed slot of the layer that runs latest, or
// -1.
func (t *Table) farthestGuess() int {
	n := t.index.Layers()
	for i := n; i > 0; i-- {
		list := listGuessed + (t.current+i)%n
		for s := t.lists.first(list); s >= 0; s = t.lists.after(s) {
			if t.entries[s].reading == 0 {
				return int(s)
			}
		}
	}
	return -1
}

// vacate takes the expert out of a slot and the slot off its list.
//
// INVARIANT: a slot that is pinned or being read is never taken from its expert.
func (t *Table) vacate(slot int) {
	e := &t.entries[slot]
	if e.pins != 0 || e.reading != 0 {
		panic(fmt.Sprintf("slot: eviction of expert %v with %d pins, reading mask %#x", e.key, e.pins, e.reading))
	}
	t.unlink(slot)
	t.clearUnused(e)
	if e.taken {
		t.slotOf[t.index.Of(e.key)] = -1
		if slot >= t.limit {
			t.above--
		}
	}
}

// free lists an empty slot as one that can be had.
func (t *Table) free(slot int) {
	t.lists.pushFront(listFree, int32(slot))
	t.entries[slot].place = onFree
}

func (t *Table) endRead(slot int, mask uint32) {
	e := &t.entries[slot]
	if uint32(e.reading)&mask != mask {
		panic(fmt.Sprintf("slot: expert %v: end of a read that never began", e.key))
	}
	e.reading &^= uint8(mask)
	t.settle(slot)
}

// settle lists a slot that has become idle where it waits for its eviction. A
// failed slot is not listed, its owner clears it, nor one above the limit, which its
// owner retires.
func (t *Table) settle(slot int) {
	e := &t.entries[slot]
	if slot < t.limit && e.idle() && !e.failed && e.place == nowhere {
		if e.expired {
			t.lists.pushBack(listWasted, int32(slot))
			e.place = onWasted
		} else {
			t.policy.Add(slot, int(e.key.Layer), t.index.Of(e.key))
			e.place = onCandidates
		}
	}
	t.check(slot)
}

func (t *Table) unlink(slot int) {
	e := &t.entries[slot]
	switch e.place {
	case nowhere:
		return
	case onCandidates:
		t.policy.Remove(slot)
	default:
		t.lists.remove(int32(slot))
	}
	e.place = nowhere
}

func (t *Table) clearUnused(e *entry) (was bool) {
	if !e.unused {
		return false
	}
	e.unused = false
	t.unused--
	return true
}

// check asserts what must hold for one slot after every change.
func (t *Table) check(slot int) {
	if !invariants.Enabled {
		return
	}
	e := &t.entries[slot]
	idle := e.idle() && !e.failed && slot < t.limit
	listed := e.place == onWasted || e.place == onCandidates
	switch {
	case e.ready&e.reading != 0:
		panic(fmt.Sprintf("slot: expert %v: a ready span is being written", e.key))
	case e.guessed != (e.place == onGuessed):
		panic(fmt.Sprintf("slot: expert %v: guess and list disagree", e.key))
	case listed != (idle && !e.guessed):
		panic(fmt.Sprintf("slot: expert %v: pins %d, reading %#x, but listed is %t", e.key, e.pins, e.reading, listed))
	case int(t.slotOf[t.index.Of(e.key)]) != slot:
		panic(fmt.Sprintf("slot: expert %v does not find its slot %d", e.key, slot))
	}
}
