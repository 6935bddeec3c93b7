// Package readq reads experts: a queue that puts demand before prefetch, lanes
// that move bytes and decide nothing, and readers of the model files.
//
// The Queue belongs to the scheduler, which serialises all calls. A lane asks
// its Owner for a read, does it without any lock and hands the result back.
package readq

import (
	"fmt"
	"math/bits"
)

// Class is where a read stands.
type Class uint8

// The classes of a read and all transitions between them:
//
//	Idle           -> QueuedDemand    PushDemand, Retry
//	Idle           -> QueuedPrefetch  PushPrefetch
//	QueuedPrefetch -> QueuedDemand    Promote
//	QueuedDemand   -> FlightDemand    Start
//	QueuedPrefetch -> FlightPrefetch  Start
//	FlightPrefetch -> FlightDemand    Promote
//	Queued...      -> Idle            Cancel
//	Flight...      -> Idle            Finish
//
// INVARIANT: one read has one class, so that it is queued or in flight at most
// once.
const (
	Idle Class = iota
	QueuedDemand
	QueuedPrefetch
	FlightDemand
	FlightPrefetch
	classes
)

// RanksMax is how many ranks of guesses are told apart; worse ones share the
// last rank. It is the word size of the bitmap of ranks in use.
const RanksMax = 64

// node is one possible read, in one of the queues or in none.
type node struct {
	next, prev int32
	class      Class
	rank       uint8
}

// Queue orders reads. A read is named by a number below the size of the queue;
// demand reads leave it in the order they came, but all before any prefetch,
// and prefetches leave it best rank first. Memory is taken by NewQueue only.
type Queue struct {
	nodes  []node // the reads, then the sentinels: demand, rank 0, rank 1, ...
	size   int32
	ranks  uint64 // bit r: the list of rank r may hold reads
	counts [classes]int
}

// NewQueue returns an empty queue for reads 0 to size-1.
func NewQueue(size int) *Queue {
	q := &Queue{nodes: make([]node, size+1+RanksMax), size: int32(size)}
	for i := range q.nodes {
		q.nodes[i].next, q.nodes[i].prev = int32(i), int32(i)
	}
	q.counts[Idle] = size
	return q
}

// Class returns where a read stands.
func (q *Queue) Class(id int) Class { return q.nodes[id].class }

// Count returns how many reads are in a class.
func (q *Queue) Count(c Class) int { return q.counts[c] }

// InFlight returns how many reads lanes are working on.
func (q *Queue) InFlight() int { return q.counts[FlightDemand] + q.counts[FlightPrefetch] }

// PushDemand queues an idle read behind the other demands.
func (q *Queue) PushDemand(id int) {
	q.move(id, QueuedDemand, Idle)
	q.insertAfter(q.nodes[q.size].prev, int32(id))
}

// Retry queues an idle read ahead of the other demands.
func (q *Queue) Retry(id int) {
	q.move(id, QueuedDemand, Idle)
	q.insertAfter(q.size, int32(id))
}

// PushPrefetch queues an idle read behind the prefetches of better or equal
// rank; rank 0 is best.
func (q *Queue) PushPrefetch(id, rank int) {
	rank = min(rank, RanksMax-1)
	q.move(id, QueuedPrefetch, Idle)
	q.nodes[id].rank = uint8(rank)
	q.ranks |= 1 << rank
	q.insertAfter(q.nodes[q.rankList(rank)].prev, int32(id))
}

// Promote turns a prefetch into a demand: a queued one goes behind the other
// demands, one in flight only counts as a demand from now on.
func (q *Queue) Promote(id int) {
	if q.nodes[id].class == FlightPrefetch {
		q.move(id, FlightDemand, FlightPrefetch)
		return
	}
	q.move(id, QueuedDemand, QueuedPrefetch)
	q.remove(int32(id))
	q.insertAfter(q.nodes[q.size].prev, int32(id))
}

// Cancel drops a queued read. It reports whether the read was queued.
func (q *Queue) Cancel(id int) bool {
	c := q.nodes[id].class
	if c != QueuedDemand && c != QueuedPrefetch {
		return false
	}
	q.move(id, Idle, c)
	q.remove(int32(id))
	return true
}

// NextDemand returns the demand read to start next.
func (q *Queue) NextDemand() (id int, ok bool) {
	n := q.nodes[q.size].next
	return int(n), n < q.size
}

// NextPrefetch returns the prefetch to start next. It must not be started while
// NextDemand has a read.
func (q *Queue) NextPrefetch() (id int, ok bool) {
	for q.ranks != 0 {
		rank := bits.TrailingZeros64(q.ranks)
		if n := q.nodes[q.rankList(rank)].next; n < q.size {
			return int(n), true
		}
		q.ranks &^= 1 << rank
	}
	return 0, false
}

// Start takes a queued read out of the queue and marks it as in flight.
//
// INVARIANT: no prefetch starts while a demand is queued.
func (q *Queue) Start(id int) Class {
	to := FlightDemand
	if q.nodes[id].class == QueuedPrefetch {
		if q.counts[QueuedDemand] != 0 {
			panic("readq: a prefetch starts before a demand")
		}
		to = FlightPrefetch
	}
	q.move(id, to, to-2)
	q.remove(int32(id))
	return to
}

// Finish ends a read in flight and returns the class it ended in.
func (q *Queue) Finish(id int) Class {
	c := q.nodes[id].class
	if c != FlightDemand && c != FlightPrefetch {
		panic(fmt.Sprintf("readq: read %d ends but is not in flight", id))
	}
	q.move(id, Idle, c)
	return c
}

func (q *Queue) rankList(rank int) int32 { return q.size + 1 + int32(rank) }

func (q *Queue) move(id int, to, from Class) {
	n := &q.nodes[id]
	if n.class != from {
		panic(fmt.Sprintf("readq: read %d changes from class %d to %d, but is of class %d", id, from, to, n.class))
	}
	n.class = to
	q.counts[from]--
	q.counts[to]++
}

func (q *Queue) insertAfter(at, id int32) {
	n := &q.nodes[id]
	n.next, n.prev = q.nodes[at].next, at
	q.nodes[n.next].prev = id
	q.nodes[at].next = id
}

func (q *Queue) remove(id int32) {
	n := &q.nodes[id]
	q.nodes[n.prev].next, q.nodes[n.next].prev = n.next, n.prev
	n.next, n.prev = id, id
}
