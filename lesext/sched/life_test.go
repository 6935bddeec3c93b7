package sched_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
)

func TestCloseWakesWhoeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 2, Lanes: 1, Lookahead: 4})
		r.reader.before = func(expert.Extent) error { time.Sleep(time.Second); return nil }
		r.open(t)
		ids := []int32{1, 2, 3}
		r.Routed(0, ids, allSpans, 1)
		synctest.Wait()
		for range 2 {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
		failed, err := r.apply(0, ids, 1)
		if failed != 2 || err != nil {
			t.Errorf("%d failed, error %v, want 2 and none", failed, err)
		}
	})
}

func TestReleaseTooOftenPanics(t *testing.T) {
	r := newRig(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 2}).open(t)
	r.step(t, 0, 1)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	r.Released(0, []int32{1})
}

func TestGivenUpExpertsLeaveTheQueue(t *testing.T) {
	bubble(t, sched.Config{Geometry: contiguousGeometry(1, 8, 2), Slots: 1, Lanes: 1}, func(t *testing.T, r *rig) {
		r.Routed(0, []int32{1, 2, 3}, allSpans, 3)
		settle()
		r.Released(0, []int32{2, 3})
		r.Released(0, []int32{1})
		settle()
		if got := r.reader.started(); len(got) != 1 {
			t.Errorf("reads %v after the starved experts were given up", got)
		}
		r.step(t, 0, 2)
	})
}

func TestConfigIsCheckedAsAWhole(t *testing.T) {
	_, err := sched.Open(sched.Config{Geometry: contiguousGeometry(1, 4, 1), Slots: 3, Arena: alignedBytes(expert.Align), Lanes: -1})
	for _, want := range []string{"arena of 4096 bytes for 3 slots of 4096 bytes", "no reader", "no publisher", "-1 lanes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}
