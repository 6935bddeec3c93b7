// Package trace keeps the last events of a run in a ring, and its routes in a
// buffer that is emptied into a file between steps. Both have a fixed size, and
// nil records nothing, so that tracing that is off costs one test. They have no
// clock and no lock: their owner passes the time and serialises all calls.
package trace

// Kind says what happened.
type Kind uint8

// Kinds of events.
const (
	Hit         Kind = iota + 1 // a routed expert was in memory
	Join                        // a read of the routed expert was under way
	Miss                        // the routed expert had to be read
	Starved                     // the routed expert waits for a slot
	Guessed                     // a prefetch was queued
	Cancelled                   // a queued prefetch was dropped
	Evicted                     // the expert lost its slot
	ReadStarted                 // a lane began a read
	ReadDone                    // a read ended well
	ReadFailed                  // a demand read ended badly for good
	ReadDropped                 // a read ended badly and nobody waited for it
	Released                    // the expert was applied
)

// Event is one thing that happened to one expert.
type Event struct {
	TimeNS int64
	Bytes  int64
	Layer  int32
	ID     int32
	Slot   int32 // -1 when the expert has none
	Kind   Kind
}

// Ring holds the last events.
type Ring struct{ buf ring[Event] }

// NewRing returns a ring for the given number of events, at least one.
func NewRing(eventsMax int) *Ring { return &Ring{newRing[Event](eventsMax)} }

// Record adds an event and overwrites the oldest one when the ring is full.
func (r *Ring) Record(e Event) {
	if r != nil {
		r.buf.add(e)
	}
}

// Events returns a copy of the events, oldest first, and how many older ones
// were overwritten.
func (r *Ring) Events() (events []Event, lost int64) {
	if r == nil {
		return nil, 0
	}
	return r.buf.all()
}

// ring is a buffer that keeps the last len(items) values of total added ones.
type ring[T any] struct {
	items []T
	total int64
}

func newRing[T any](n int) ring[T] { return ring[T]{items: make([]T, max(1, n))} }

func (r *ring[T]) add(v T) {
	r.items[r.total%int64(len(r.items))] = v
	r.total++
}

func (r *ring[T]) all() (values []T, lost int64) {
	n := int64(len(r.items))
	lost = max(0, r.total-n)
	for i := lost; i < r.total; i++ {
		values = append(values, r.items[i%n])
	}
	return values, lost
}
