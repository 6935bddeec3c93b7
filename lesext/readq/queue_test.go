package readq_test

import (
	"slices"
	"testing"

	"github.com/les-project/les/lesext/readq"
)

// drain starts and finishes all queued reads and returns their order.
func drain(q *readq.Queue) (order []int) {
	for {
		id, ok := q.NextDemand()
		if !ok {
			id, ok = q.NextPrefetch()
		}
		if !ok {
			return order
		}
		q.Start(id)
		q.Finish(id)
		order = append(order, id)
	}
}

func TestDemandComesBeforePrefetchAndPrefetchByRank(t *testing.T) {
	q := readq.NewQueue(100)
	q.PushPrefetch(10, 1)
	q.PushPrefetch(11, 0)
	q.PushDemand(20)
	q.PushPrefetch(12, 1000)
	q.PushPrefetch(13, 0)
	q.PushDemand(19)
	if got, want := drain(q), []int{20, 19, 11, 13, 10, 12}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestPromotedPrefetchIsDemand(t *testing.T) {
	q := readq.NewQueue(8)
	q.PushPrefetch(1, 0)
	q.PushPrefetch(2, 1)
	q.PushDemand(3)
	q.Promote(2)
	if got, want := drain(q), []int{3, 2, 1}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
	q.PushPrefetch(1, 0)
	if c := q.Start(1); c != readq.FlightPrefetch {
		t.Errorf("class %d in flight", c)
	}
	q.Promote(1)
	if c := q.Finish(1); c != readq.FlightDemand || q.InFlight() != 0 {
		t.Errorf("class %d at the end, %d in flight", c, q.InFlight())
	}
}

func TestCancelDropsQueuedReadsOnly(t *testing.T) {
	q := readq.NewQueue(8)
	q.PushPrefetch(1, 0)
	q.PushDemand(2)
	q.PushDemand(3)
	q.Start(3)
	if !q.Cancel(1) || !q.Cancel(2) || q.Cancel(3) || q.Cancel(4) {
		t.Error("exactly the two queued reads can be cancelled")
	}
	if q.Count(readq.FlightDemand) != 1 || q.Count(readq.Idle) != 7 {
		t.Errorf("%d in flight, %d idle", q.Count(readq.FlightDemand), q.Count(readq.Idle))
	}
}

func TestRetryGoesFirst(t *testing.T) {
	q := readq.NewQueue(8)
	q.PushDemand(1)
	q.PushDemand(2)
	q.Start(1)
	q.Finish(1)
	q.Retry(1)
	if got, want := drain(q), []int{1, 2}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

func TestMisuseOfTheQueuePanics(t *testing.T) {
	cases := map[string]func(q *readq.Queue){
		"queued twice":            func(q *readq.Queue) { q.PushDemand(1); q.PushPrefetch(1, 0) },
		"queued while in flight":  func(q *readq.Queue) { q.PushDemand(1); q.Start(1); q.PushDemand(1) },
		"prefetch before demand":  func(q *readq.Queue) { q.PushDemand(1); q.PushPrefetch(2, 0); q.Start(2) },
		"finished while queued":   func(q *readq.Queue) { q.PushDemand(1); q.Finish(1) },
		"started while not there": func(q *readq.Queue) { q.Start(1) },
	}
	for name, misuse := range cases {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse(readq.NewQueue(8))
		}()
	}
}
