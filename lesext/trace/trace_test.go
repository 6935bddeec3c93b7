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

func TestRoutesKeepSetsTogether(t *testing.T) {
	r := trace.NewRoutes(10)
	r.Record(0, []int32{1, 2}, 1)
	r.Record(1, []int32{3}, 4)
	routes, lost := r.Routes()
	want := []trace.Route{{Step: 0, ID: 1, Tokens: 1}, {Step: 0, ID: 2, Tokens: 1}, {Step: 1, Layer: 1, ID: 3, Tokens: 4}}
	if lost != 0 || len(routes) != len(want) {
		t.Fatalf("routes %v, %d lost", routes, lost)
	}
	for i := range want {
		if routes[i] != want[i] {
			t.Errorf("route %d is %+v, want %+v", i, routes[i], want[i])
		}
	}
}

func TestNilRingsRecordNothing(t *testing.T) {
	var ring *trace.Ring
	var routes *trace.Routes
	ring.Record(trace.Event{})
	routes.Record(0, []int32{1}, 1)
	events, _ := ring.Events()
	sets, _ := routes.Routes()
	if events != nil || sets != nil {
		t.Errorf("events %v, routes %v", events, sets)
	}
}
