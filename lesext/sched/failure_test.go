package sched_test

import (
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/slot"
)

// A step ends at its first failed expert and gives back the others, whose reads
// fail while the next step wants them already. Each failed step must have an
// error of its own: one that was told before it began is gone.
func TestEachFailedStepIsTold(t *testing.T) {
	var told atomic.Int64
	g := contiguousGeometry(1, 4, 4)
	r := newRig(t, sched.Config{Geometry: g, Slots: 4, Lanes: 4, OnFail: func(error) {
		told.Add(1)
		time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
	}})
	r.reader.before = func(expert.Extent) error { return syscall.EIO }
	r.open(t)
	ids := []int32{0, 1, 2, 3}
	for step := range 500 {
		before := told.Load()
		r.Routed(0, ids, allSpans, 1)
		if _, word := r.board.waitAny(0, ids, allSpans); word&slot.FlagFailed == 0 {
			t.Fatalf("step %d: an expert that cannot be read is ready", step)
		}
		if told.Load() == before {
			t.Fatalf("step %d failed without an error", step)
		}
		r.Released(0, ids)
	}
}
