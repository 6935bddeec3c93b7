package sched_test

import (
	"reflect"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/trace"
)

func TestRoutesHaveEveryStepOnceAndItsGuesses(t *testing.T) {
	config := sched.Config{Geometry: splitGeometry(2, 8, 2), Slots: 8, Lookahead: 1, Routes: trace.NewRoutes(10, 100)}
	config.Now = func() int64 { return 42 }
	r := newRig(t, config).open(t)
	r.Predicted(1, []int32{6, 5}) // recorded before the cut to one guess
	for _, spans := range []uint32{0b001, 0b110} {
		r.Routed(1, []int32{5, 7}, spans, 2)
		if _, err := r.apply(1, []int32{5, 7}, spans); err != nil {
			t.Fatal(err)
		}
	}
	var got []trace.Set
	if lost, err := config.Routes.Drain(func(s trace.Set) error { got = append(got, s); return nil }); lost != 0 || err != nil {
		t.Errorf("%d lost, error %v", lost, err)
	}
	want := []trace.Set{
		{TimeNS: 42, Layer: 1, IDs: []int32{6, 5}, Guessed: true}, {TimeNS: 42, Layer: 1, Tokens: 2, IDs: []int32{5, 7}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("sets %+v, want %+v", got, want)
	}
}

// TestManualSchedulerReadsThroughItsCaller has no lanes: what Next returns is
// what lanes would have taken.
func TestManualSchedulerReadsThroughItsCaller(t *testing.T) {
	r := newRig(t, sched.Config{Geometry: contiguousGeometry(2, 8, 2), Slots: 8, Lanes: 2, Lookahead: 4, Manual: true}).open(t)
	r.Predicted(1, []int32{3})
	r.Routed(0, []int32{1}, allSpans, 1)
	for _, want := range []expert.Extent{r.extent(0, 1, 0), r.extent(1, 3, 0)} {
		read, ok := r.Next()
		if !ok || read.Want != want {
			t.Fatalf("read %+v, %t, want %+v", read.Want, ok, want)
		}
		r.Done(read, r.reader.ReadExtent(read.Want, read.Buf))
	}
	if _, err := r.apply(0, []int32{1}, 1); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if _, ok := r.Next(); ok {
		t.Error("a closed scheduler has a read to do")
	}
}
