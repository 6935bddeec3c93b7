package sched

import (
	"cmp"
	"slices"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/slot"
)

// Use is how often an expert was routed.
type Use struct {
	Key  expert.Key
	Uses uint32
}

// warmPlan is what is read ahead of any need.
//
// INVARIANT: a warm read starts only into an empty slot or one that a dropped guess
// left half read, while no demand is queued, in flight or starved and no prefetch
// may start.
type warmPlan struct {
	keys  []expert.Key // those left, hottest first
	begun bool         // the first of them has had a slot: one that failed is not tried again
	max   int          // reads in flight, of any class, below which one may start
}

// Warm reads experts into empty slots, the first ones first, whenever lanes have
// nothing else to do, until they are all in memory or no slot is empty. A key
// outside the geometry is a bug of the caller. Calling it again replaces what is
// left of the experts given before.
func (s *Scheduler) Warm(keys []expert.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustBeOpenLocked()
	for _, k := range keys {
		s.index.Of(k)
	}
	s.mu.warm = warmPlan{keys: slices.Clone(keys), max: max(1, s.config.Lanes/2)}
	s.wakeLocked()
}

// Hot returns up to n experts that were routed since the scheduler was opened,
// most used first. It allocates and is not meant for every token.
func (s *Scheduler) Hot(n int) []Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hot []Use
	for i, uses := range s.mu.uses {
		if uses > 0 {
			hot = append(hot, Use{s.index.Key(i), uses})
		}
	}
	slices.SortStableFunc(hot, func(a, b Use) int { return cmp.Compare(b.Uses, a.Uses) })
	return hot[:min(n, len(hot))]
}

// Idle reports whether nothing is left to read: no read is queued or in flight,
// and none of the experts given to Warm can be read any more.
func (s *Scheduler) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idleLocked()
}

func (s *Scheduler) idleLocked() bool {
	q := s.mu.queue
	return len(s.mu.warm.keys) == 0 && q.InFlight()+q.Count(readq.QueuedDemand)+q.Count(readq.QueuedPrefetch) == 0
}

// nextWarmLocked returns the warm read that may start now, if there is one.
// Experts that have a slot are left to those who gave it to them, as long as they
// want it: what is left of the reads of a guess that was dropped is read here.
func (s *Scheduler) nextWarmLocked() (id int, ok bool) {
	m := &s.mu
	if len(m.warm.keys) == 0 || m.starved.len() > 0 || m.queue.InFlight() >= m.warm.max ||
		m.queue.Count(readq.QueuedDemand)+m.queue.Count(readq.FlightDemand) > 0 {
		return 0, false
	}
	for len(m.warm.keys) > 0 {
		k := m.warm.keys[0]
		at, resident := m.table.Lookup(k)
		e := s.interestLocked(k)
		switch {
		case resident && (e.warm || !m.warm.begun && e.owed == 0 && e.guess == noGuess):
			if run, left := s.missingRun(k, at); left {
				return s.readID(k, run), true
			}
		case resident || m.warm.begun || e.owed > 0 || e.guess != noGuess:
		case m.table.CanAcquire(slot.Warm):
			return s.readID(k, 0), true
		default:
			m.warm.keys = nil // the pool is full, and stays so
			return 0, false
		}
		m.warm.keys, m.warm.begun = m.warm.keys[1:], false
	}
	return 0, false
}

// missingRun returns the first run of an expert that has yet to be read.
func (s *Scheduler) missingRun(k expert.Key, at int) (run int, ok bool) {
	m := &s.mu
	here := m.table.Ready(at) | m.table.Reading(at)
	for i, run := range s.runs[k.Layer] {
		if run.Mask&here == 0 && m.queue.Class(s.readID(k, i)) == readq.Idle && m.table.State(at) != slot.Failed {
			return i, true
		}
	}
	return 0, false
}

// startWarmLocked starts a read that nextWarmLocked has returned. In the queue it
// is a prefetch of the last rank, so that a demand takes it over as one.
func (s *Scheduler) startWarmLocked(id int) readq.Read {
	m := &s.mu
	k, run := s.readOf(id)
	if at, resident := m.table.Lookup(k); resident {
		m.table.Begin(at, run.Mask)
	} else {
		at, victim, _ := m.table.Acquire(k, run.Mask, slot.Warm)
		s.occupyLocked(k, at, victim)
	}
	if e := s.interestLocked(k); !e.warm {
		e.warm, m.warm.begun = true, true
		m.stats.Warmed++
	}
	m.queue.PushPrefetch(id, readq.RanksMax-1)
	m.queue.Start(id)
	return s.readLocked(id, &m.stats.WarmReads, &m.stats.WarmBytes)
}
