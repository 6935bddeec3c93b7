package sched_test

import (
	"testing"
	"testing/synctest"

	"github.com/les-project/les/lesext/sched"
)

func TestAnIdleExpertThatLosesItsSlotIsWithdrawn(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 4, Lanes: 1}, func(t *testing.T, r *rig) {
		r.step(t, 0, 0, 1, 2, 3)
		r.SetSlots(1)
		left := 0
		for id := range int32(4) {
			if r.board.word(0, id) != 0 {
				left++
			}
		}
		if s := r.Stats(); left != 1 || s.Retired != 3 || s.Evictions != 0 || !r.WaitRetired() {
			t.Errorf("%d words left; %d retired, %d evicted", left, s.Retired, s.Evictions)
		}
		r.step(t, 0, 0, 1, 2, 3)
	})
}

func TestWaitRetiredWaitsForWhatIsInUse(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 4, Lanes: 1}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{0, 1, 2, 3}, allSpans, 1)
		settle()
		r.SetSlots(1)
		gone := false
		go func() { gone = r.WaitRetired() }()
		synctest.Wait()
		if gone {
			t.Error("slots of pinned experts count as retired")
		}
		if _, err := r.apply(0, []int32{0, 1, 2, 3}, 1); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if !gone {
			t.Error("slots are not retired after their release")
		}
	})
}

func TestStarvedExpertsAreServedAfterShrinkingAndGrowing(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 12, 2), Slots: 4, Lanes: 1}, func(t *testing.T, r *rig) {
		ids := []int32{0, 1, 2, 3, 4, 5, 6, 7}
		if starved := r.Routed(0, ids, allSpans, 4); starved != 4 {
			t.Fatalf("%d starved", starved)
		}
		r.SetSlots(1)
		if _, err := r.apply(0, ids[:6], 1); err != nil {
			t.Error(err)
		}
		r.SetSlots(3)
		if _, err := r.apply(0, ids[6:], 1); err != nil {
			t.Error(err)
		}
		r.SetSlots(1)
		r.Routed(0, ids, allSpans, 4)
		r.SetSlots(4) // serves those who wait without a release
		settle()
		if got := r.Stats().Starved; got != 4+7 || r.board.word(0, 1) == 0 {
			t.Errorf("%d starved in all, word %#x", got, r.board.word(0, 1))
		}
		if _, err := r.apply(0, ids, 1); err != nil {
			t.Error(err)
		}
	})
}

func TestCloseEndsTheWaitForRetiredSlots(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 2, Lanes: 1}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{0, 1}, allSpans, 1)
		settle()
		r.SetSlots(1)
		done := make(chan bool)
		go func() { done <- r.WaitRetired() }()
		synctest.Wait()
		r.Close()
		if <-done {
			t.Error("slots count as retired although the scheduler was closed")
		}
		r.SetSlots(2)
	})
}
