package sched_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/slot"
)

const allSpans = ^uint32(0)

// bubble runs a test on virtual time, where every read takes a second.
func bubble(t *testing.T, config sched.Config, test func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, config)
		r.reader.before = func(expert.Extent) error { time.Sleep(time.Second); return nil }
		r.open(t)
		test(t, r)
		settle()
		r.sums(t)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestDemandOvertakesPrefetch(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 8, Lanes: 1, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Predicted(1, []int32{7, 6, 5})
		synctest.Wait() // the prefetch of 7 is in flight
		r.Routed(0, []int32{1, 2}, allSpans, 1)
		settle()
		want := []expert.Extent{r.extent(1, 7, 0), r.extent(0, 1, 0), r.extent(0, 2, 0), r.extent(1, 6, 0), r.extent(1, 5, 0)}
		if got := r.reader.started(); !slices.Equal(got, want) {
			t.Errorf("reads started in the order %v, want %v", got, want)
		}
		r.Released(0, []int32{1, 2})
	})
}

func TestPrefetchLeavesOneLaneForDemand(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 8, Lanes: 3, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Predicted(1, []int32{7, 6, 5, 4})
		synctest.Wait()
		r.Routed(0, []int32{1}, allSpans, 1)
		synctest.Wait()
		if got := r.reader.started(); !slices.Contains(got, r.extent(0, 1, 0)) {
			t.Errorf("the demand waits while prefetches are in flight: %v", got)
		}
		settle()
		r.Released(0, []int32{1})
	})
}

func TestPromotedReadDoesNotMakeRoomForPrefetch(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 8, Lanes: 2, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Predicted(0, []int32{1})
		synctest.Wait()
		r.Routed(0, []int32{1}, allSpans, 1)
		r.Predicted(1, []int32{5})
		synctest.Wait()
		if got := r.reader.started(); len(got) != 1 {
			t.Errorf("a prefetch took the last lane: %v", got)
		}
		settle()
		if got := r.reader.started(); len(got) != 2 {
			t.Errorf("the prefetch did not run when lanes were idle: %v", got)
		}
		r.Released(0, []int32{1})
	})
}

func TestQueuedPrefetchThatIsRoutedIsPromoted(t *testing.T) {
	g := contiguousGeometry(1, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 8, Lanes: 1, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Predicted(0, []int32{7, 6, 5, 4})
		synctest.Wait()
		r.Routed(0, []int32{4, 7}, allSpans, 1)
		settle()
		s := r.Stats()
		if s.Promoted != 1 || s.Cancelled != 2 || s.Useful != 1 || s.Late != 1 || s.Joins != 1 || s.Misses != 1 {
			t.Errorf("after one late, one promoted and two wrong guesses: %+v", s)
		}
		if got := r.reader.started(); len(got) != 2 {
			t.Errorf("%d reads for two routed experts: %v", len(got), got)
		}
		r.Released(0, []int32{4, 7})
	})
}

func TestPinnedSlotIsNeverEvicted(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 2, Lanes: 2, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{1, 2}, allSpans, 1)
		settle()
		r.Predicted(1, []int32{5, 6})
		starved := r.Routed(1, []int32{3, 4}, allSpans, 1)
		settle()
		if starved != 2 || len(r.reader.started()) != 2 {
			t.Errorf("%d starved and reads %v while all slots are pinned", starved, r.reader.started())
		}
		for _, id := range []int32{1, 2} {
			if err := r.check(0, id, 1, r.board.word(0, id)); err != nil {
				t.Error(err)
			}
		}
		r.Released(0, []int32{1, 2})
		settle()
		for _, id := range []int32{3, 4} {
			if err := r.check(1, id, 1, r.board.word(1, id)); err != nil {
				t.Error(err)
			}
		}
		r.Released(1, []int32{3, 4})
	})
}

func TestOneReadInFlightPerExpert(t *testing.T) {
	g := contiguousGeometry(1, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 4, Lanes: 4, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Predicted(0, []int32{1})
		synctest.Wait()
		r.Routed(0, []int32{1, 2}, allSpans, 1)
		r.Routed(0, []int32{1, 2}, allSpans, 1)
		settle()
		if got := r.reader.started(); len(got) != 2 {
			t.Errorf("reads %v, want one for each expert", got)
		}
		if s := r.Stats(); s.Joins != 3 || s.Misses != 1 {
			t.Errorf("%d joins and %d misses, want 3 and 1", s.Joins, s.Misses)
		}
		r.Released(0, []int32{1, 2})
		r.Released(0, []int32{1, 2})
	})
}

func TestSpansAreReadyOneByOne(t *testing.T) {
	g := splitGeometry(1, 4, 1)
	bubble(t, sched.Config{Geometry: g, Slots: 1, Lanes: 1}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{3}, allSpans, 1)
		for _, want := range []uint32{0, 1, 3, 7} {
			synctest.Wait()
			if got := r.board.word(0, 3) & 7; got != want {
				t.Errorf("ready mask is %#x, want %#x", got, want)
			}
			time.Sleep(time.Second)
		}
		r.Released(0, []int32{3})
	})
}

func TestOnlyMissingSpansAreRead(t *testing.T) {
	g := splitGeometry(1, 4, 1)
	bubble(t, sched.Config{Geometry: g, Slots: 2, Lanes: 2}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{3}, 0b011, 1)
		settle()
		r.Released(0, []int32{3})
		r.Routed(0, []int32{3}, 0b110, 1)
		settle()
		want := []expert.Extent{r.extent(0, 3, 0), r.extent(0, 3, 1), r.extent(0, 3, 2)}
		got := r.reader.started()
		slices.SortFunc(got, func(a, b expert.Extent) int { return int(a.Off - b.Off) })
		if !slices.Equal(got, want) {
			t.Errorf("reads %v, want %v", got, want)
		}
		r.Released(0, []int32{3})
	})
}

func TestFailedPrefetchIsDropped(t *testing.T) {
	g := splitGeometry(2, 4, 1)
	bubble(t, sched.Config{Geometry: g, Slots: 4, Lanes: 2, Lookahead: 4, OnFail: func(err error) { t.Error(err) }}, func(t *testing.T, r *rig) {
		r.reader.before = func(expert.Extent) error { return syscall.EIO }
		r.Predicted(1, []int32{2})
		settle()
		if s := r.Stats(); s.PrefetchFailures != 1 || s.Wasted != 1 || s.Failures != 0 {
			t.Errorf("after a failed prefetch: %+v", s)
		}
		if w := r.board.word(1, 2); w != 0 {
			t.Errorf("word of the expert is %#x", w)
		}
		r.reader.before = nil
		r.step(t, 1, 2)
	})
}

func TestFailedDemandReadFailsAfterRetries(t *testing.T) {
	g := contiguousGeometry(2, 4, 1)
	var failures []error
	config := sched.Config{Geometry: g, Slots: 4, Lanes: 2, OnFail: func(err error) { failures = append(failures, err) }}
	bubble(t, config, func(t *testing.T, r *rig) {
		r.reader.before = func(expert.Extent) error { return syscall.EIO }
		r.Routed(1, []int32{2}, allSpans, 1)
		settle()
		if w := r.board.word(1, 2); w&slot.FlagFailed == 0 {
			t.Errorf("word of the failed expert is %#x", w)
		}
		var failure *sched.ReadError
		if len(failures) != 1 || !errors.As(failures[0], &failure) || !errors.Is(failure, syscall.EIO) {
			t.Fatalf("reported failures: %v", failures)
		}
		if failure.Key != (expert.Key{Layer: 1, ID: 2}) || failure.Attempts != 3 || !strings.Contains(failure.Error(), "input/output error") {
			t.Errorf("reported failure: %v", failure)
		}
		r.Released(1, []int32{2})
		if w := r.board.word(1, 2); w != 0 {
			t.Errorf("word after the release is %#x", w)
		}
		r.reader.before = nil
		r.step(t, 1, 2) // a later demand reads again
		if s := r.Stats(); s.Retries != 2 || s.Failures != 1 {
			t.Errorf("%d retries and %d failures, want 2 and 1", s.Retries, s.Failures)
		}
	})
}

func TestPassingReadErrorIsRetried(t *testing.T) {
	g := contiguousGeometry(1, 4, 1)
	bubble(t, sched.Config{Geometry: g, Slots: 1, Lanes: 1, OnFail: func(err error) { t.Error(err) }}, func(t *testing.T, r *rig) {
		n := 0
		r.reader.before = func(expert.Extent) error {
			if n++; n%3 != 0 {
				return syscall.EIO
			}
			return nil
		}
		for _, id := range []int32{1, 2, 1, 2} { // each read has its retries anew
			r.step(t, 0, id)
		}
	})
}

func TestWideStepReadsEachExpertOnce(t *testing.T) {
	ids := make([]int32, 64)
	for i := range ids {
		ids[i] = int32(i)
	}
	for _, slots := range []int{1, 7, 8, 9, 24, 63, 64, 65} {
		bubble(t, sched.Config{Geometry: splitGeometry(2, 64, 8), Slots: slots, Lanes: 3}, func(t *testing.T, r *rig) {
			for layer := range 2 {
				starved := r.Routed(layer, ids, allSpans, 512)
				if want := max(0, 64-slots); starved != want {
					t.Errorf("%d slots: %d starved, want %d", slots, starved, want)
				}
				if _, err := r.apply(layer, ids, 7); err != nil {
					t.Error(err)
				}
			}
			for extent, n := range r.reader.reads {
				if n != 1 {
					t.Errorf("%d slots: %v is read %d times", slots, extent, n)
				}
			}
		})
	}
}

func TestPrefetchNeverTakesSlotOfStarvedDemand(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 2, Lanes: 2, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{1, 2, 3}, allSpans, 1)
		r.Predicted(1, []int32{5})
		settle()
		r.Released(0, []int32{1})
		settle()
		if w := r.board.word(0, 3); w == 0 {
			t.Error("the starved expert did not get the released slot")
		}
		r.Released(0, []int32{2, 3})
	})
}

func TestGuessThatIsInMemoryIsProtectedWithoutARead(t *testing.T) {
	for _, policy := range sim.Policies() {
		bubble(t, sched.Config{Geometry: contiguousGeometry(2, 8, 2), Slots: 2, Lanes: 2, Lookahead: 8, Policy: policyOf(t, policy, contiguousGeometry(2, 8, 2), 2)}, func(t *testing.T, r *rig) {
			r.step(t, 1, 5)
			r.Predicted(1, []int32{5})
			for id := range int32(4) {
				r.step(t, 0, id)
			}
			r.step(t, 1, 5)
			if s := r.Stats(); s.Hits != 1 || s.PrefetchQueued != 0 || s.Useful != 0 {
				t.Errorf("%s: %d hits, %d prefetches, %d useful, want 1, 0 and 0", policy, s.Hits, s.PrefetchQueued, s.Useful)
			}
		})
	}
}

func TestPrefetchInMemoryIsNotContinuedWhileADemandStarves(t *testing.T) {
	g := splitGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 2, Lanes: 3, Lookahead: 8}, func(t *testing.T, r *rig) {
		slow := r.extent(1, 5, 1)
		r.reader.before = func(want expert.Extent) error {
			time.Sleep(time.Second)
			if want == slow {
				time.Sleep(time.Second)
			}
			return nil
		}
		r.Predicted(1, []int32{5})
		synctest.Wait() // two of its three spans are in flight
		if starved := r.Routed(0, []int32{1, 2}, 0b001, 1); starved != 1 {
			t.Errorf("%d starved, want 1", starved)
		}
		settle()
		if slices.Contains(r.reader.started(), r.extent(1, 5, 2)) {
			t.Error("the guess keeps its slot busy while a demand waits for it")
		}
		if r.board.word(0, 2) == 0 {
			t.Error("the starved expert did not get the slot")
		}
		r.Released(0, []int32{1, 2})
	})
}

func TestWrongGuessIsFirstVictim(t *testing.T) {
	g := contiguousGeometry(2, 8, 2)
	bubble(t, sched.Config{Geometry: g, Slots: 3, Lanes: 2, Lookahead: 8}, func(t *testing.T, r *rig) {
		r.step(t, 0, 1)
		r.Predicted(1, []int32{5})
		settle()
		r.step(t, 1, 6) // 5 was guessed in vain
		r.step(t, 0, 2)
		if r.board.word(1, 5) != 0 || r.board.word(0, 1) == 0 || r.board.word(1, 6) == 0 {
			t.Error("another expert than the wrong guess was evicted")
		}
	})
}

func TestGuessIsProtectedUntilItsLayerHasRouted(t *testing.T) {
	for _, policy := range sim.Policies() {
		bubble(t, sched.Config{Geometry: contiguousGeometry(2, 8, 2), Slots: 2, Lanes: 2, Lookahead: 8, Policy: policyOf(t, policy, contiguousGeometry(2, 8, 2), 2)}, func(t *testing.T, r *rig) {
			r.Predicted(1, []int32{5})
			settle()
			for id := range int32(4) {
				r.step(t, 0, id)
			}
			if r.board.word(1, 5) == 0 {
				t.Errorf("%s: the guessed expert was evicted", policy)
			}
			r.Routed(0, []int32{6, 7}, allSpans, 2) // a demand may take it when nothing else is left
			settle()
			if r.board.word(0, 6) == 0 || r.board.word(0, 7) == 0 {
				t.Errorf("%s: a guess holds up a demand", policy)
			}
			r.Released(0, []int32{6, 7})
		})
	}
}
