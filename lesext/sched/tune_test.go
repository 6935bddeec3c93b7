package sched_test

import (
	"slices"
	"testing"

	"github.com/les-project/les/lesext/sched"
)

func TestGuessesThatNeverComeTrueGetNoPrefetch(t *testing.T) {
	r := newRig(t, sched.Config{Geometry: contiguousGeometry(2, 64, 2), Slots: 4, Lanes: 2, Lookahead: 2}).open(t)
	for i := range int32(200) {
		r.Predicted(1, []int32{32 + i%32})
		r.step(t, 0, i%8)
		r.step(t, 1, 16+i%8)
	}
	before := r.sums(t)
	for i := range int32(50) {
		r.Predicted(1, []int32{32 + i%32})
		r.step(t, 0, i%8)
		r.step(t, 1, 16+i%8)
	}
	after := r.sums(t)
	if queued, cut := after.PrefetchQueued-before.PrefetchQueued, after.Cut-before.Cut; queued != 0 || cut != 50 {
		t.Errorf("%d prefetches queued and %d cut of 50 guesses that are always wrong", queued, cut)
	}
}

func TestLookaheadThatCostsTimeIsTurnedOff(t *testing.T) {
	for _, test := range []struct {
		name string
		cost int64 // added to a token with at least one prefetch queued
		off  bool
	}{{"costs", 150, true}, {"gains", -150, false}} {
		t.Run(test.name, func(t *testing.T) {
			var now int64
			wanted := true
			r := newRig(t, sched.Config{
				Geometry: contiguousGeometry(2, 64, 2), Slots: 4, Lanes: 2, Lookahead: 2,
				Tune: true, Now: func() int64 { return now }, OnLookahead: func(on bool) { wanted = on },
			}).open(t)
			queued := int64(0)
			for i := range int32(1500) {
				r.step(t, 0, i%8)
				if wanted {
					r.Predicted(1, []int32{16 + i%48})
				}
				r.step(t, 1, 16+i%48)
				now += 1000
				if stats := r.sums(t); stats.PrefetchQueued > queued {
					now, queued = now+test.cost, stats.PrefetchQueued
				}
			}
			if cut := r.sums(t).CutPercent; (cut > 100) != test.off {
				t.Errorf("guesses must come true in %d %% of cases, want off: %v", cut, test.off)
			} else if wanted == test.off {
				t.Errorf("guesses are wanted: %v", wanted)
			}
		})
	}
}

func TestNoGuessesAreWantedOnceEverythingIsInMemory(t *testing.T) {
	const experts = 4
	g := contiguousGeometry(2, experts, 2)
	var told []bool
	note := func(wanted bool) { told = append(told, wanted) }
	bubble(t, sched.Config{Geometry: g, Slots: 2 * experts, Lookahead: 2, OnLookahead: note}, func(t *testing.T, r *rig) {
		for layer := range int32(2) {
			for id := range int32(experts) {
				if len(told) > 0 {
					t.Fatalf("told %v before all is read", told)
				}
				r.step(t, int(layer), id)
			}
		}
		r.step(t, 0, 1)
		r.step(t, 0, 2)
		if !slices.Equal(told, []bool{false}) {
			t.Errorf("told %v, want false once", told)
		}
	})
}
