package slot_test

import (
	"testing"

	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/slot"
)

func TestIdleSlotsRetireAtOnceAndBusyOnesWhenTheySettle(t *testing.T) {
	for _, policy := range policies {
		table := newTable(t, 1, 8, 4, policy)
		for id := range 3 {
			fill(t, table, key(0, id))
		}
		reading, _, _ := table.Acquire(key(0, 3), 1, slot.Demand)
		pinned, _ := table.Lookup(key(0, 2))
		table.Pin(pinned)
		resize(table, 1)
		if table.Slots() != 1 || table.Retiring() != 2 || table.State(1) != slot.Retired {
			t.Errorf("%s: %d slots, %d retiring, state %d", policy, table.Slots(), table.Retiring(), table.State(1))
		}
		if _, resident := table.Lookup(key(0, 1)); resident {
			t.Errorf("%s: the expert of a retired slot is still found", policy)
		}
		if _, victim := fill(t, table, key(0, 4)); victim.Key != key(0, 0) {
			t.Errorf("%s: victim %v, want the only slot left", policy, victim.Key)
		}
		table.Landed(reading, 1)
		table.Unpin(pinned)
		for _, at := range []int{reading, pinned} {
			if victim, ok := table.Retire(at); !ok || !victim.Evicted {
				t.Errorf("%s: slot %d does not retire once it has settled", policy, at)
			}
		}
		if table.Retiring() != 0 {
			t.Errorf("%s: %d slots are retiring", policy, table.Retiring())
		}
	}
}

func TestGrownSlotsAreEmptyAndTakenFirst(t *testing.T) {
	table := newTable(t, 1, 8, 4, sim.PolicyLFRU)
	for id := range 4 {
		fill(t, table, key(0, id))
	}
	resize(table, 2)
	resize(table, 4)
	for id := 4; id < 6; id++ {
		if _, victim := fill(t, table, key(0, id)); victim.Evicted {
			t.Errorf("expert %v lost its slot while others were empty", victim.Key)
		}
	}
	if _, victim := fill(t, table, key(0, 6)); !victim.Evicted {
		t.Error("there is a fifth slot")
	}
}

func TestASlotThatIsRetiringStaysWhenThePoolGrowsAgain(t *testing.T) {
	table := newTable(t, 1, 8, 2, sim.PolicyLFRU)
	fill(t, table, key(0, 0))
	at, _ := fill(t, table, key(0, 1))
	table.Pin(at)
	resize(table, 1)
	resize(table, 2)
	table.Unpin(at)
	if _, ok := table.Retire(at); ok || table.Retiring() != 0 {
		t.Errorf("the slot has gone, %d are retiring", table.Retiring())
	}
	if _, resident := table.Lookup(key(0, 1)); !resident || !table.CanAcquire(slot.Prefetch) {
		t.Error("its expert is not in memory as before")
	}
}

func TestRetiringAnUnusedPrefetchIsReported(t *testing.T) {
	table := newTable(t, 1, 8, 2, sim.PolicyLFRU)
	fill(t, table, key(0, 0))
	at, _, _ := table.Acquire(key(0, 1), 1, slot.Prefetch)
	table.Guess(at, true)
	table.Landed(at, 1)
	table.Resize(1)
	if victim, ok := table.Retire(at); !ok || !victim.Unused || table.Unused() != 0 {
		t.Errorf("victim %+v, %t, %d unused", victim, ok, table.Unused())
	}
	mustPanic(t, "no slots", func() { table.Resize(0) })
	mustPanic(t, "more slots than there are", func() { table.Resize(3) })
}
