package sched

import "github.com/les-project/les/lesext/expert"

// starvedQueue is the order in which experts that wait for a slot are served.
// Each expert is in it at most once, so it never outgrows its ring. Experts that
// were given up stay until they come to the front.
type starvedQueue struct {
	ring  []expert.Key
	head  int
	count int // keys in the ring
	live  int // of these, experts that somebody still waits for
}

func newStarvedQueue(experts int) starvedQueue {
	return starvedQueue{ring: make([]expert.Key, experts)}
}

// len returns how many experts somebody waits for.
func (q *starvedQueue) len() int { return q.live }

// want adds one who waits for the expert.
func (q *starvedQueue) want(e *interest) {
	if e.owed == 0 {
		q.live++
	}
	e.owed++
}

// unwant takes one back who has given up.
func (q *starvedQueue) unwant(e *interest) {
	e.owed--
	if e.owed == 0 {
		e.need = 0
		q.live--
	}
}

// satisfy ends the wait of all for the expert.
func (q *starvedQueue) satisfy(e *interest) {
	e.owed = 0
	q.live--
}

func (q *starvedQueue) push(k expert.Key) {
	q.ring[(q.head+q.count)%len(q.ring)] = k
	q.count++
}

func (q *starvedQueue) first() (k expert.Key, ok bool) {
	return q.ring[q.head], q.count > 0
}

func (q *starvedQueue) pop() {
	q.head = (q.head + 1) % len(q.ring)
	q.count--
}
