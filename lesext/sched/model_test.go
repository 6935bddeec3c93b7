package sched_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/sim"
)

// TestEveryByteIsRightAtUse lets several contexts run random steps, narrow and
// wide, with random guesses, delays and read errors, and compares every byte of
// every applied expert with the file.
func TestEveryByteIsRightAtUse(t *testing.T) {
	geometries := map[string]expert.Geometry{
		"split":      splitGeometry(3, 12, 2),
		"contiguous": contiguousGeometry(3, 12, 2),
	}
	for name, g := range geometries {
		for _, policy := range sim.Policies() {
			for _, slots := range []int{1, 2, 3, 5, 12, 24, 40} {
				t.Run(fmt.Sprintf("%s/%s/%d", name, policy, slots), func(t *testing.T) {
					t.Parallel()
					runModel(t, g, policy, slots)
				})
			}
		}
	}
}

// TestEveryByteIsRightWhileSlotsComeAndGo is the same with a pool that changes its
// size all the time. Memory of slots that have gone is overwritten at once.
func TestEveryByteIsRightWhileSlotsComeAndGo(t *testing.T) {
	for _, policy := range []string{sim.PolicyLFRU, sim.PolicyLRU} {
		for _, slots := range []int{2, 5, 24} {
			t.Run(fmt.Sprintf("%s/%d", policy, slots), func(t *testing.T) {
				t.Parallel()
				g := splitGeometry(3, 12, 2)
				r := newRigFor(sched.Config{Geometry: g, Policy: policyOf(t, policy, g, slots), Slots: slots, Lanes: 3, Lookahead: 4}, slots)
				done, ended := make(chan struct{}), make(chan int)
				r.reader.before = slowAndBroken(uint64(slots))
				r.open(t)
				go func() { ended <- r.resizeUntil(done, newChance(uint64(slots))) }()
				r.runContexts(t, 80)
				close(done)
				if n := <-ended; n < 20 {
					t.Errorf("the pool changed its size %d times only", n)
				}
				r.sums(t)
			})
		}
	}
}

// resizeUntil changes the number of slots at random and returns how often it did.
func (r *rig) resizeUntil(done chan struct{}, chance *rand.Rand) (n int) {
	capacity := len(r.config.Arena) / int(r.config.Geometry.SlotBytes)
	for ; ; n++ {
		select {
		case <-done:
			return n
		case <-time.After(time.Duration(chance.IntN(2000)) * time.Microsecond):
		}
		slots := 1 + chance.IntN(capacity)
		r.SetSlots(slots)
		if chance.IntN(2) == 0 && r.WaitRetired() {
			gone := r.config.Arena[int64(slots)*r.config.Geometry.SlotBytes:]
			for i := range gone {
				gone[i] = 0xEE
			}
		}
	}
}

func runModel(t *testing.T, g expert.Geometry, policy string, slots int) {
	r := newRig(t, sched.Config{Geometry: g, Policy: policyOf(t, policy, g, slots), Slots: slots, Lanes: 3, Lookahead: 4})
	r.reader.before = slowAndBroken(uint64(slots))
	r.open(t)
	r.runContexts(t, 40)
	r.sums(t)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r.reader.twice {
		t.Error("two reads of one extent were in flight at once")
	}
}

// runContexts runs several contexts at once.
func (r *rig) runContexts(t *testing.T, steps int) {
	const contexts = 3
	slots := r.config.Slots
	var wait sync.WaitGroup
	for c := range contexts {
		wait.Go(func() {
			if err := r.context(rand.New(rand.NewPCG(uint64(c), uint64(slots))), steps); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
}

// context runs steps over all layers: guesses for the next layer, then routes.
func (r *rig) context(chance *rand.Rand, steps int) error {
	var errs []error
	layers := r.config.Geometry.Layers
	for range steps {
		for layer, l := range layers {
			n := l.Used
			if chance.IntN(4) == 0 {
				n = 1 + chance.IntN(l.Experts)
			}
			ids := distinct(chance, l.Experts, n)
			guesses := distinct(chance, l.Experts, l.Used)
			r.Predicted((layer+1)%len(layers), guesses)
			slices.Sort(ids)
			spans := 1 + chance.Uint32N(l.AllSpans())
			starved := r.Routed(layer, ids, spans, n)
			if starved > n {
				errs = append(errs, fmt.Errorf("%d of %d experts starved", starved, n))
			}
			_, err := r.apply(layer, ids, spans)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func distinct(chance *rand.Rand, experts, n int) []int32 {
	var ids []int32
	for _, id := range chance.Perm(experts)[:n] {
		ids = append(ids, int32(id))
	}
	return ids
}
