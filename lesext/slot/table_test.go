package slot_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/slot"
)

var policies = append(sim.Policies(), "lfru:4")

// newTable returns a pool for layers of equal size.
func newTable(t testing.TB, layers, experts, slots int, policy string) *slot.Table {
	t.Helper()
	g := expert.Geometry{Layers: make([]expert.Layer, layers)}
	for i := range g.Layers {
		g.Layers[i].Experts = experts
	}
	index := expert.NewIndex(g)
	p, err := sim.NewPolicy(policy, slots, index, nil)
	if err != nil {
		t.Fatal(err)
	}
	return slot.NewTable(index, slots, p)
}

func key(layer, id int) expert.Key { return expert.Key{Layer: int32(layer), ID: int32(id)} }

// fill acquires a slot and completes its read.
func fill(t testing.TB, table *slot.Table, k expert.Key) (at int, victim slot.Victim) {
	t.Helper()
	at, victim, ok := table.Acquire(k, 1, slot.Demand)
	if !ok {
		t.Fatalf("no slot for %v", k)
	}
	table.Landed(at, 1)
	return at, victim
}

func mustPanic(t *testing.T, what string, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s: no panic", what)
		}
	}()
	f()
}

func TestWordLayout(t *testing.T) {
	cases := []struct {
		slot   int
		ready  uint32
		failed bool
		want   uint32
	}{
		{0, 0, false, 0x100}, {0, 7, false, 0x107}, {4, 1, true, 0x581}, {-1, 0, true, 0x80}, {slot.Max, 7, true, 0xffffff87},
	}
	for _, c := range cases {
		if got := slot.Word(c.slot, c.ready, c.failed); got != c.want {
			t.Errorf("word of slot %d, ready %d, failed %t is %#x, want %#x", c.slot, c.ready, c.failed, got, c.want)
		}
	}
}

func TestSlotGoesThroughItsStates(t *testing.T) {
	table := newTable(t, 1, 8, 1, sim.PolicyLFRU)
	if table.State(0) != slot.Empty {
		t.Errorf("state %d of a new slot", table.State(0))
	}
	at, victim, ok := table.Acquire(key(0, 3), 0b011, slot.Demand)
	if !ok || victim.Evicted || table.State(at) != slot.Reading || table.Reading(at) != 0b011 {
		t.Errorf("after Acquire: state %d, victim %+v", table.State(at), victim)
	}
	table.Landed(at, 0b001)
	if table.State(at) != slot.Reading || table.Word(at) != slot.Word(at, 1, false) {
		t.Errorf("after the first span: state %d, word %#x", table.State(at), table.Word(at))
	}
	table.Landed(at, 0b010)
	if table.State(at) != slot.Ready {
		t.Errorf("after all spans: state %d", table.State(at))
	}
	table.Begin(at, 0b100)
	table.Fail(at, 0b100)
	if table.State(at) != slot.Failed || table.Word(at) != slot.Word(at, 3, true) {
		t.Errorf("after the failure: state %d, word %#x", table.State(at), table.Word(at))
	}
	table.Clear(at)
	if _, resident := table.Lookup(key(0, 3)); resident || table.State(at) != slot.Empty {
		t.Errorf("after Clear: state %d, resident %t", table.State(at), resident)
	}
}

func TestBusySlotsAreNeverVictims(t *testing.T) {
	for _, policy := range policies {
		table := newTable(t, 1, 8, 3, policy)
		pinned, _ := fill(t, table, key(0, 0))
		table.Pin(pinned)
		table.Pin(pinned)
		reading, _, _ := table.Acquire(key(0, 1), 1, slot.Demand)
		free, _ := fill(t, table, key(0, 2))
		if at, victim, ok := table.Acquire(key(0, 3), 1, slot.Demand); !ok || at != free || victim.Key != key(0, 2) {
			t.Errorf("%s: victim is %+v, ok %t", policy, victim, ok)
		}
		table.Unpin(pinned)
		if table.CanAcquire(slot.Demand) {
			t.Errorf("%s: a slot can be had although all are busy", policy)
		}
		table.Unpin(pinned)
		table.Landed(reading, 1)
		fill(t, table, key(0, 4))
		fill(t, table, key(0, 5))
	}
}

func TestMisuseOfATablePanics(t *testing.T) {
	prepared := func() (*slot.Table, int) {
		table := newTable(t, 1, 8, 2, sim.PolicyLRU)
		at, _ := fill(t, table, key(0, 0))
		return table, at
	}
	table, at := prepared()
	mustPanic(t, "unpin without pin", func() { table.Unpin(at) })
	table, at = prepared()
	table.Pin(at)
	mustPanic(t, "clear of a pinned slot", func() { table.Clear(at) })
	table, at = prepared()
	mustPanic(t, "read over ready bytes", func() { table.Begin(at, 1) })
	table, at = prepared()
	mustPanic(t, "end of a read that never began", func() { table.Landed(at, 2) })
	table, at = prepared()
	mustPanic(t, "pin of an empty slot", func() { table.Pin(1 - at) })
}

func TestGuessesOutliveCandidatesAndWrongOnesGoFirst(t *testing.T) {
	for _, policy := range policies {
		table := newTable(t, 3, 8, 3, policy)
		guess, _, _ := table.Acquire(key(1, 0), 1, slot.Prefetch)
		table.Guess(guess, true)
		table.Landed(guess, 1)
		later, _ := fill(t, table, key(2, 0))
		table.Guess(later, false)
		fill(t, table, key(0, 0))
		for id := 1; id < 8; id++ {
			if _, victim := fill(t, table, key(0, id)); victim.Key != key(0, id-1) {
				t.Errorf("%s: victim %v while guesses are protected", policy, victim.Key)
			}
		}
		if n := table.Expire(1); n != 1 || table.Unused() != 0 {
			t.Errorf("%s: %d wasted, %d unused left", policy, n, table.Unused())
		}
		if _, victim := fill(t, table, key(0, 0)); victim.Key != key(1, 0) || victim.Unused {
			t.Errorf("%s: victim %+v, want the wrong guess", policy, victim)
		}
	}
}

func TestDemandTakesAGuessOnlyWhenNothingElseIsLeft(t *testing.T) {
	table := newTable(t, 4, 8, 2, sim.PolicyLFRU)
	for layer := 1; layer <= 2; layer++ {
		at, _, _ := table.Acquire(key(layer, 0), 1, slot.Prefetch)
		table.Guess(at, true)
		table.Landed(at, 1)
	}
	if table.CanAcquire(slot.Prefetch) {
		t.Error("a prefetch may evict a guess")
	}
	if _, victim := fill(t, table, key(0, 0)); victim.Key != key(2, 0) || !victim.Unused {
		t.Errorf("victim %+v, want the guess for the farthest layer", victim)
	}
}

func TestFirstUseOfAPrefetchIsReportedOnce(t *testing.T) {
	table := newTable(t, 1, 8, 2, sim.PolicyLRU)
	at, _, _ := table.Acquire(key(0, 0), 1, slot.Prefetch)
	table.Guess(at, true)
	if table.Unused() != 1 || !table.Pin(at) || table.Pin(at) || table.Unused() != 0 {
		t.Errorf("%d unused at the end", table.Unused())
	}
}

// TestRandomUseKeepsTheTableConsistent drives all transitions; the assertions
// of the table are the test in builds with the tag invariants.
func TestRandomUseKeepsTheTableConsistent(t *testing.T) {
	for _, policy := range policies {
		const layers, experts, slots = 3, 10, 7
		table := newTable(t, layers, experts, slots, policy)
		chance := rand.New(rand.NewPCG(3, 4))
		pins := map[int]int{}
		for range 50000 {
			randomCall(table, chance, pins)
		}
		seen := map[expert.Key]bool{}
		for at := range slots {
			k, taken := table.Key(at)
			if taken && seen[k] {
				t.Errorf("%s: %v is in two slots", policy, k)
			}
			seen[k] = taken
			if table.Pins(at) != pins[at] {
				t.Errorf("%s: slot %d has %d pins, want %d", policy, at, table.Pins(at), pins[at])
			}
		}
	}
}

// randomCall makes one legal call.
func randomCall(table *slot.Table, chance *rand.Rand, pins map[int]int) {
	if chance.IntN(50) == 0 {
		resize(table, 1+chance.IntN(table.Capacity()))
	}
	k := key(chance.IntN(3), chance.IntN(10))
	at, resident := table.Lookup(k)
	defer func() {
		if resident {
			table.Retire(at)
		}
	}()
	if !resident {
		at, _, ok := table.Acquire(k, 3, slot.Purpose(chance.IntN(2)))
		if ok && chance.IntN(2) == 0 {
			table.Guess(at, chance.IntN(2) == 0)
		}
		return
	}
	reading := table.Reading(at)
	bit := uint32(1) << chance.IntN(2)
	switch n := chance.IntN(12); {
	case n < 4 && reading&bit != 0:
		table.Landed(at, bit)
	case n == 4 && reading&bit != 0:
		table.Dropped(at, bit)
	case n == 5 && reading&bit != 0:
		table.Fail(at, bit)
	case n < 7:
		table.Pin(at)
		table.Use(k)
		pins[at]++
	case n < 9 && pins[at] > 0:
		table.Unpin(at)
		pins[at]--
	case n == 9:
		table.Guess(at, false)
	case n == 10:
		table.Expire(int(k.Layer))
		table.Step(int(k.Layer))
	case pins[at] == 0 && reading == 0:
		table.Clear(at)
	}
}

// resize does what the owner of a table does.
func resize(table *slot.Table, slots int) {
	old := table.Slots()
	table.Resize(slots)
	for at := slots; at < old; at++ {
		table.Retire(at)
	}
}

// replay routes sets of experts layer by layer, without guesses, and returns
// the share of experts found in memory over the second half.
func replay(table *slot.Table, layers int, sets [][]int) float64 {
	hits, lookups := 0, 0
	for i, set := range sets {
		layer := i % layers
		table.Step(layer)
		for _, id := range set {
			at, resident := table.Lookup(key(layer, id))
			if i >= len(sets)/2 {
				lookups++
				if resident {
					hits++
				}
			}
			if !resident {
				at, _, _ = table.Acquire(key(layer, id), 1, slot.Demand)
				table.Landed(at, 1)
			}
			table.Pin(at)
			table.Use(key(layer, id))
		}
		for _, id := range set {
			at, _ := table.Lookup(key(layer, id))
			table.Unpin(at)
		}
	}
	return float64(hits) / float64(lookups)
}

func TestLFRUHitsInAPoolSmallerThanOneToken(t *testing.T) {
	const layers, experts, slots = 10, 16, 30 // one token uses 40
	var sets [][]int
	for range layers * 400 {
		sets = append(sets, []int{1, 4, 7, 9})
	}
	lru := replay(newTable(t, layers, experts, slots, sim.PolicyLRU), layers, sets)
	lfru := replay(newTable(t, layers, experts, slots, sim.PolicyLFRU), layers, sets)
	if lru != 0 || lfru < 0.7 {
		t.Errorf("LRU hits %.2f, want 0; LFRU hits %.2f, want 0.7 or more", lru, lfru)
	}
}

// popularSets draws routed sets where expert popularity is skewed, differs by
// layer and shifts after every shift tokens; a share of each set repeats the
// previous token's.
func popularSets(layers, experts, used, tokens, shift int, repeat float64) [][]int {
	chance := rand.New(rand.NewPCG(5, 6))
	popular := rand.NewZipf(chance, 1.1, 10, uint64(experts-1))
	var sets [][]int
	for i := range layers * tokens {
		layer, token := i%layers, i/layers
		set := map[int]bool{}
		if token > 0 {
			for _, id := range sets[i-layers] {
				if chance.Float64() < repeat {
					set[id] = true
				}
			}
		}
		for len(set) < used {
			set[(int(popular.Uint64())*7+layer*13+token/shift*31)%experts] = true
		}
		var ids []int
		for id := range experts {
			if set[id] {
				ids = append(ids, id)
			}
		}
		sets = append(sets, ids)
	}
	return sets
}

// TestLFRUFollowsPopularity compares the policies where the pool holds the
// experts of several tokens, which is where LRU does well.
func TestLFRUFollowsPopularity(t *testing.T) {
	const layers, experts, used = 12, 64, 6 // one token uses 72
	for _, shift := range []int{1000, 100} {
		sets := popularSets(layers, experts, used, 600, shift, 0.3)
		for _, slots := range []int{200, 300, 400} {
			lru := replay(newTable(t, layers, experts, slots, sim.PolicyLRU), layers, sets)
			lfru := replay(newTable(t, layers, experts, slots, sim.PolicyLFRU), layers, sets)
			t.Logf("%d slots, popularity shifts after %d tokens: LRU %.3f, LFRU %.3f", slots, shift, lru, lfru)
			if lfru < lru {
				t.Errorf("%d slots, shift %d: LFRU hits %.3f, LRU %.3f", slots, shift, lfru, lru)
			}
		}
	}
}

func BenchmarkAcquire(b *testing.B) {
	for _, policy := range policies {
		for _, slots := range []int{1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", policy, slots), func(b *testing.B) {
				const layers, experts = 90, 512
				table := newTable(b, layers, experts, slots, policy)
				chance := rand.New(rand.NewPCG(1, 1))
				popular := rand.NewZipf(chance, 1.05, 100, layers*experts-1)
				for b.Loop() {
					n := int(popular.Uint64())
					k := key(n%layers, n/layers)
					at, resident := table.Lookup(k)
					if !resident {
						at, _, _ = table.Acquire(k, 1, slot.Demand)
						table.Landed(at, 1)
					}
					table.Pin(at)
					table.Use(k)
					table.Unpin(at)
					table.Step(int(k.Layer))
				}
			})
		}
	}
}
