package sched_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

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

func runModel(t *testing.T, g expert.Geometry, policy string, slots int) {
	const contexts, steps = 3, 40
	r := newRig(t, sched.Config{Geometry: g, Policy: policyOf(t, policy, g, slots), Slots: slots, Lanes: 3, Lookahead: 4})
	r.reader.before = slowAndBroken(uint64(slots))
	r.open(t)
	var wait sync.WaitGroup
	for c := range contexts {
		wait.Go(func() {
			if err := r.context(rand.New(rand.NewPCG(uint64(c), uint64(slots))), steps); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	r.sums(t)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r.reader.twice {
		t.Error("two reads of one extent were in flight at once")
	}
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
