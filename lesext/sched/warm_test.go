package sched_test

import (
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
)

func keys(layer int, ids ...int32) (keys []expert.Key) {
	for _, id := range ids {
		keys = append(keys, expert.Key{Layer: int32(layer), ID: id})
	}
	return keys
}

func TestWarmReadsTheHottestThatFit(t *testing.T) {
	bubble(t, sched.Config{Geometry: splitGeometry(2, 8, 2), Slots: 3, Lanes: 4}, func(t *testing.T, r *rig) {
		r.Warm(keys(1, 5, 4, 3, 2, 1))
		settle()
		for id, want := range map[int32]bool{5: true, 4: true, 3: true, 2: false, 1: false} {
			if word := r.board.word(1, id); (word&7 == 7) != want {
				t.Errorf("word of expert %d is %#x", id, word)
			}
		}
		if err := r.check(1, 5, 7, r.board.word(1, 5)); err != nil {
			t.Error(err)
		}
		r.step(t, 1, 5, 3)
		if s := r.Stats(); s.Warmed != 3 || s.WarmReads != 9 || s.WarmBytes != 27000 || s.WarmUseful != 2 || s.Hits != 2 || s.PrefetchReads+s.DemandReads != 0 {
			t.Errorf("counts %+v", s)
		}
	})
}

func TestWarmEvictsNothing(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(2, 8, 2), Slots: 2}, func(t *testing.T, r *rig) {
		r.step(t, 0, 1, 2)
		r.Warm(keys(1, 3, 4))
		settle()
		if got := r.reader.started(); len(got) != 2 {
			t.Errorf("reads %v, want those of the demands only", got)
		}
	})
}

// TestWarmWaitsForEverythingElse has two lanes, so that one warm read runs at a
// time; it never runs beside a demand.
func TestWarmWaitsForEverythingElse(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 8, Lanes: 2, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Warm(keys(1, 7, 6))
		synctest.Wait() // 7 is in flight
		r.Routed(0, []int32{1, 2}, allSpans, 1)
		r.Predicted(1, []int32{5})
		settle()
		want := []expert.Extent{r.extent(1, 7, 0), r.extent(0, 1, 0), r.extent(0, 2, 0), r.extent(1, 5, 0), r.extent(1, 6, 0)}
		if got := r.reader.started(); !slices.Equal(got, want) {
			t.Errorf("reads started in the order %v, want %v", got, want)
		}
		r.Released(0, []int32{1, 2})
	})
}

func TestWarmReadThatIsNeededIsJoined(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 4}, func(t *testing.T, r *rig) {
		r.Warm(keys(0, 3))
		synctest.Wait()
		r.step(t, 0, 3)
		if s := r.Stats(); s.Joins != 1 || s.WarmUseful != 1 || len(r.reader.started()) != 1 {
			t.Errorf("counts %+v, reads %v", s, r.reader.started())
		}
	})
}

func TestWarmExpertThatIsNotUsedIsEvictedFirst(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 3}, func(t *testing.T, r *rig) {
		r.step(t, 0, 1)
		r.Warm(keys(0, 6, 7))
		settle()
		r.step(t, 0, 2)
		r.step(t, 0, 3)
		if r.board.word(0, 1) == 0 || r.board.word(0, 2) == 0 || r.board.word(0, 6) != 0 || r.board.word(0, 7) != 0 {
			t.Error("a used expert was evicted for one that is only warm")
		}
		if s := r.Stats(); s.Warmed != 2 || s.WarmUseful != 0 {
			t.Errorf("counts %+v", s)
		}
	})
}

func TestWarmReadThatFailsIsNotRepeated(t *testing.T) {
	for name, g := range map[string]expert.Geometry{"split": splitGeometry(1, 8, 2), "contiguous": contiguousGeometry(1, 8, 2)} {
		bubble(t, sched.Config{Geometry: g, Slots: 4}, func(t *testing.T, r *rig) {
			broken := r.extent(0, 3, len(g.Layers[0].Spans)-1)
			r.reader.before = func(want expert.Extent) error {
				if want == broken {
					return syscall.EIO
				}
				return nil
			}
			r.Warm(keys(0, 3, 4))
			settle()
			s := r.Stats()
			if r.reader.reads[broken] != 1 || s.PrefetchFailures != 1 || s.Failures != 0 || r.board.word(0, 4) == 0 {
				t.Errorf("%s: %d reads of what is broken, counts %+v", name, r.reader.reads[broken], s)
			}
		})
	}
}

// TestWarmFinishesWhatADroppedGuessLeft has one lane, so that a guess has one of
// its three reads when its layer routes something else.
func TestWarmFinishesWhatADroppedGuessLeft(t *testing.T) {
	bubble(t, sched.Config{Geometry: splitGeometry(2, 8, 2), Slots: 16, Lanes: 1, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Predicted(1, []int32{5})
		synctest.Wait()
		r.step(t, 1, 2)
		settle()
		if word := r.board.word(1, 5) & 7; word == 0 || word == 7 {
			t.Fatalf("spans %#x are there before, a part of them is wanted", word)
		}
		r.Warm(keys(1, 5))
		settle()
		word := r.board.word(1, 5)
		if s := r.Stats(); word&7 != 7 || !r.Idle() || s.Warmed != 1 || s.WarmReads != 2 {
			t.Errorf("spans %#x are there, counts %+v", word&7, s)
		}
		if err := r.check(1, 5, 7, word); err != nil {
			t.Error(err)
		}
	})
}

func TestHotIsByUseAndBounded(t *testing.T) {
	r := newRig(t, sched.Config{Geometry: contiguousGeometry(2, 8, 2), Slots: 2}).open(t)
	for range 3 {
		r.step(t, 1, 5)
	}
	r.step(t, 0, 1, 2)
	r.step(t, 0, 2)
	want := []sched.Use{{Key: keys(1, 5)[0], Uses: 3}, {Key: keys(0, 2)[0], Uses: 2}}
	if got := r.Hot(2); !slices.Equal(got, want) {
		t.Errorf("hot are %v, want %v", got, want)
	}
	if got := r.Hot(100); len(got) != 3 {
		t.Errorf("hot are %v", got)
	}
}

// TestEveryByteIsRightWhileWarming runs steps over a pool that is being warmed,
// with slow and failing reads.
func TestEveryByteIsRightWhileWarming(t *testing.T) {
	for name, g := range map[string]expert.Geometry{"split": splitGeometry(3, 12, 2), "contiguous": contiguousGeometry(3, 12, 2)} {
		for _, slots := range []int{1, 3, 12, 40} {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, sched.Config{Geometry: g, Slots: slots, Lanes: 3, Lookahead: 4})
				r.reader.before = slowAndBroken(uint64(slots))
				r.open(t)
				var all []expert.Key
				for layer := range g.Layers {
					all = append(all, keys(layer, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)...)
				}
				r.Warm(all)
				err := r.context(newChance(uint64(slots)), 30)
				r.Warm(all)
				if err = errors.Join(err, r.context(newChance(7), 10)); err != nil {
					t.Errorf("%s, %d slots: %v", name, slots, err)
				}
				settle()
				s := r.sums(t)
				if s.WarmUseful > s.Warmed || slots == 40 && s.Warmed == 0 {
					t.Errorf("%s, %d slots: %d warmed, %d useful", name, slots, s.Warmed, s.WarmUseful)
				}
				if err := r.Close(); err != nil || r.reader.twice {
					t.Errorf("error %v, read twice %t", err, r.reader.twice)
				}
			})
		}
	}
}
