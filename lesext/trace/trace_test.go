package trace_test

import (
	"testing"

	"github.com/les-project/les/lesext/trace"
)

func TestRingKeepsTheLastEvents(t *testing.T) {
	r := trace.NewRing(3)
	for i := range int64(5) {
		r.Record(trace.Event{TimeNS: i, Kind: trace.Hit})
	}
	events, lost := r.Events()
	if len(events) != 3 || lost != 2 || events[0].TimeNS != 2 || events[2].TimeNS != 4 {
		t.Errorf("events %v, %d lost", events, lost)
	}
}

func TestNilBuffersRecordNothing(t *testing.T) {
	var ring *trace.Ring
	var routes *trace.Routes
	ring.Record(trace.Event{})
	routes.Record(trace.Set{IDs: []int32{1}})
	events, _ := ring.Events()
	lost, err := routes.Drain(func(trace.Set) error { t.Error("a set is in a nil buffer"); return nil })
	if events != nil || lost != 0 || err != nil {
		t.Errorf("events %v, %d lost, error %v", events, lost, err)
	}
}
