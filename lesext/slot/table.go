// Package slot keeps the pool of expert slots: which expert is in which slot,
// what may be evicted, and what goes first. It does no I/O, has no clock and no
// lock: the caller serialises all calls and moves the bytes. All memory is taken
// by NewTable.
package slot

import (
	"fmt"

	"github.com/les-project/les/lesext/expert"
)

// State is what a slot holds.
type State uint8

// The states of a slot and all transitions between them:
//
//	Empty   -> Reading  Acquire
//	Reading -> Ready    Landed or Dropped, when no read is left
//	Reading -> Failed   Fail
//	Ready   -> Reading  Begin, for spans that are missing; Acquire as a victim
//	Ready   -> Empty    Clear
//	Failed  -> Empty    Clear
//	Empty   -> Retired  Resize to fewer slots
//	Ready   -> Retired  Retire, or Clear above the limit
//	Failed  -> Retired  Retire, or Clear above the limit
//	Retired -> Empty    Resize to more slots
//
// A ready slot may hold only some of the spans of its expert.
//
// INVARIANT: a slot is in exactly one state, which its entry determines.
const (
	Empty State = iota
	Reading
	Ready
	Failed
	Retired
)

// Purpose says on whose behalf a slot is acquired.
type Purpose uint8

// A demand may evict what a guess protects, a prefetch may not, and warming may
// evict nothing.
const (
	Demand Purpose = iota
	Prefetch
	Warm
)

// Victim describes the expert that lost its slot.
type Victim struct {
	Key     expert.Key
	Evicted bool // false: the slot was empty
	Unused  bool // it was prefetched, is not used yet and was protected
}

// entry is the state of one slot. A used entry is on the list of its layer's
// guesses while guessed, on the wasted list or among the policy's candidates
// when it may be evicted, and on no list when pinned or being read.
type entry struct {
	key     expert.Key
	pins    int32
	ready   uint8 // mask of spans in place
	reading uint8 // mask of spans with a read queued or in flight
	taken   bool
	failed  bool
	guessed bool // protected until its layer has routed
	unused  bool // prefetched and neither used nor given up yet
	expired bool // its guess was wrong: a first victim once it is idle
	place   place
}

// idle reports whether nobody uses the slot and nothing is read into it.
func (e *entry) idle() bool { return e.pins == 0 && e.reading == 0 }

// place is the list a slot is on.
type place uint8

const (
	nowhere place = iota
	onFree
	onWasted
	onCandidates
	onGuessed
)

// Lists of a Table: the free slots, the wasted ones, then one list of guesses
// for each layer.
const (
	listFree = iota
	listWasted
	listGuessed
)

// Table is the pool of slots.
type Table struct {
	index   expert.Index
	policy  Policy
	entries []entry
	slotOf  []int32 // by expert: its slot, or -1
	lists   lists
	steps   []int64 // by layer: how often it has routed
	current int     // the layer that routed last
	unused  int     // slots marked unused
	limit   int     // slots at and above it take in no expert any more
	above   int     // of these, slots that still hold one
}

// NewTable returns an empty pool of slots that are all in use; Resize changes how
// many are. The number of slots must be 1 to Max.
func NewTable(index expert.Index, slots int, policy Policy) *Table {
	if slots < 1 || slots > Max {
		panic(fmt.Sprintf("slot: %d slots, want 1 to %d", slots, Max))
	}
	t := &Table{
		index:   index,
		policy:  policy,
		entries: make([]entry, slots),
		slotOf:  make([]int32, index.Len()),
		steps:   make([]int64, index.Layers()),
		lists:   newLists(slots, listGuessed+index.Layers()),
		limit:   slots,
	}
	for i := range t.slotOf {
		t.slotOf[i] = -1
	}
	for s := range t.entries {
		t.lists.pushBack(listFree, int32(s))
		t.entries[s].place = onFree
	}
	return t
}

// Lookup returns the slot that belongs to an expert, in whatever state.
func (t *Table) Lookup(k expert.Key) (slot int, ok bool) {
	s := t.slotOf[t.index.Of(k)]
	return int(s), s >= 0
}

// Step tells that a layer has routed. The time of the policy is the number of
// steps of each layer.
func (t *Table) Step(layer int) {
	t.steps[layer]++
	t.current = layer
}

// Use counts one use of an expert. Pin its slot, if it has one, first.
func (t *Table) Use(k expert.Key) {
	t.policy.Use(int(k.Layer), t.index.Of(k), t.steps[k.Layer])
}

// CanAcquire reports whether Acquire would find a slot.
func (t *Table) CanAcquire(purpose Purpose) bool {
	return t.choose(purpose) >= 0
}

// Acquire gives an expert a slot and marks the spans of mask as being read.
// An empty slot goes first, then a wrong guess, then the victim of the policy,
// and for a demand, at last, a guess that may yet come true.
func (t *Table) Acquire(k expert.Key, mask uint32, purpose Purpose) (slot int, victim Victim, ok bool) {
	s := t.choose(purpose)
	if s < 0 {
		return 0, Victim{}, false
	}
	e := &t.entries[s]
	if e.taken {
		victim = Victim{Key: e.key, Evicted: true, Unused: e.unused}
	}
	t.vacate(s)
	*e = entry{key: k, taken: true, reading: uint8(mask)}
	t.slotOf[t.index.Of(k)] = int32(s)
	t.check(s)
	return s, victim, true
}

// Begin marks more spans of a slot as being read.
func (t *Table) Begin(slot int, mask uint32) {
	e := t.entry(slot)
	if e.failed || uint32(e.ready|e.reading)&mask != 0 {
		panic(fmt.Sprintf("slot: expert %v is read twice", e.key))
	}
	e.reading |= uint8(mask)
	if !e.guessed {
		t.unlink(slot)
	}
	t.check(slot)
}

// Landed marks spans as in place.
func (t *Table) Landed(slot int, mask uint32) {
	e := t.entry(slot)
	e.ready |= uint8(mask)
	t.endRead(slot, mask)
}

// Dropped marks the read of spans as given up, without an error for anyone.
func (t *Table) Dropped(slot int, mask uint32) { t.endRead(slot, mask) }

// Fail marks the read of spans as failed for good. The slot stays failed until
// it is cleared.
func (t *Table) Fail(slot int, mask uint32) {
	e := t.entry(slot)
	e.failed = true
	t.endRead(slot, mask)
}

// Clear empties a slot that is neither pinned nor being read.
func (t *Table) Clear(slot int) {
	t.entry(slot)
	t.vacate(slot)
	t.entries[slot] = entry{}
	if slot < t.limit {
		t.free(slot)
	}
}

// Pin forbids eviction until the matching Unpin. It ends a guess, and reports
// whether this is the first use of a prefetched expert.
func (t *Table) Pin(slot int) (firstUse bool) {
	e := t.entry(slot)
	t.unlink(slot)
	e.pins++
	e.guessed, e.expired = false, false
	return t.clearUnused(e)
}

// Unpin takes back one Pin and returns how many are left.
func (t *Table) Unpin(slot int) (pins int) {
	e := t.entry(slot)
	e.pins--
	if e.pins < 0 {
		panic(fmt.Sprintf("slot: expert %v is released more often than pinned", e.key))
	}
	t.settle(slot)
	return int(e.pins)
}

// Guess protects a slot until its layer has routed. A pinned slot needs no
// protection. Prefetched says that the expert is read because of this guess.
func (t *Table) Guess(slot int, prefetched bool) {
	e := t.entry(slot)
	if e.pins > 0 || e.failed {
		return
	}
	if !e.guessed {
		t.unlink(slot)
		t.lists.pushBack(listGuessed+int(e.key.Layer), int32(slot))
		e.guessed, e.expired, e.place = true, false, onGuessed
	}
	if prefetched && !e.unused {
		e.unused = true
		t.unused++
	}
}

// Expire ends the guesses of a layer that has routed and pinned what it needs.
// It returns how many prefetched experts turned out to be wasted; they are the
// next victims.
func (t *Table) Expire(layer int) (wasted int) {
	for {
		s := t.lists.first(listGuessed + layer)
		if s < 0 {
			return wasted
		}
		if t.GiveUp(int(s)) {
			wasted++
		}
	}
}

// GiveUp ends the guess on one slot. It reports whether the slot held, or was
// about to hold, a prefetched expert that was never used.
func (t *Table) GiveUp(slot int) (wasted bool) {
	e := t.entry(slot)
	if e.guessed {
		t.unlink(slot)
		e.guessed = false
	}
	wasted = t.clearUnused(e)
	e.expired = e.expired || wasted
	t.settle(slot)
	return wasted
}
