package sched_test

import (
	"testing"

	"github.com/les-project/les/lesext/sched"
)

// TestProjectionsOfOneStepAreCountedOnce routes a layer as nodes that are not
// fused do: one call for each projection, the second span first.
func TestProjectionsOfOneStepAreCountedOnce(t *testing.T) {
	r := newRig(t, sched.Config{Geometry: splitGeometry(1, 8, 2), Slots: 8, Lookahead: 2}).open(t)
	step := func(ids ...int32) {
		for _, spans := range []uint32{0b010, 0b001, 0b100} {
			r.Routed(0, ids, spans, 1)
			if _, err := r.apply(0, ids, spans); err != nil {
				t.Fatal(err)
			}
		}
	}
	step(1, 2)
	r.Predicted(0, []int32{2, 5})
	step(2, 3)
	s := r.sums(t)
	layer := s.Layers[0]
	if s.Lookups != 4 || s.Hits != 1 || layer.LookupStats != s.LookupStats {
		t.Errorf("lookups are %+v in all, %+v in the layer, want 4 with 1 hit", s.LookupStats, layer.LookupStats)
	}
	if layer.Steps != 2 || layer.Guessed != 2 || layer.Right != 1 || layer.RoutedAgain != 2 || layer.Repeated != 1 {
		t.Errorf("lookahead is %+v, want 2 steps, 1 of 2 guesses right, 1 of 2 repeated", layer.LayerStats)
	}
}

// TestFusedStepsAreCountedEach routes whole experts, and one projection twice.
func TestFusedStepsAreCountedEach(t *testing.T) {
	r := newRig(t, sched.Config{Geometry: splitGeometry(1, 8, 2), Slots: 8}).open(t)
	r.step(t, 0, 1, 2)
	r.step(t, 0, 1, 2)
	for range 2 {
		r.Routed(0, []int32{1}, 0b001, 1)
		if _, err := r.apply(0, []int32{1}, 0b001); err != nil {
			t.Fatal(err)
		}
	}
	if s := r.sums(t); s.Layers[0].Steps != 4 || s.Lookups != 6 || s.Hits != 4 {
		t.Errorf("counts are %+v", s)
	}
}
