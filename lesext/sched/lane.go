package sched

import (
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/slot"
)

// lane is the scheduler as the lanes see it.
type lane struct{ s *Scheduler }

// Take implements readq.Owner.
func (l lane) Take() (readq.Read, bool) {
	m := &l.s.mu
	m.Lock()
	defer m.Unlock()
	for !m.closed {
		if r, ok := l.s.nextLocked(); ok {
			return r, true
		}
		m.idle++
		m.wake.Wait()
		m.idle--
	}
	return readq.Read{}, false
}

// Done implements readq.Owner.
func (l lane) Done(r readq.Read, err error) {
	s, m := l.s, &l.s.mu
	m.Lock()
	defer m.Unlock()
	k, run := s.readOf(r.ID)
	at, _ := m.table.Lookup(k)
	final := err != nil && s.finalLocked(r.ID, at)
	if final && s.config.OnFail != nil {
		s.config.OnFail(&ReadError{Key: k, Block: s.config.Geometry.Layers[k.Layer].Block, Attempts: int(m.attempts[r.ID]) + 1, Err: err})
	}
	class := m.queue.Finish(r.ID)
	switch {
	case err == nil:
		s.landLocked(k, at, run)
	case final:
		s.failLocked(k, at, run)
	case class == readq.FlightDemand && m.table.Pins(at) > 0:
		m.stats.Retries++
		m.attempts[r.ID]++
		m.queue.Retry(r.ID)
		s.wakeLocked()
		return
	default:
		s.dropLocked(k, at, run, class)
	}
	m.attempts[r.ID] = 0
	s.tidyLocked(at)
	s.serveStarvedLocked()
	s.wakeLocked()
}

// readOf is the inverse of readID.
func (s *Scheduler) readOf(id int) (k expert.Key, run expert.Run) {
	k = s.index.Key(id / s.runsMax)
	return k, s.runs[k.Layer][id%s.runsMax]
}

// nextLocked starts the read that is due: a demand if there is one, else a
// prefetch if a lane is left for demands and it can have a slot, else a warm read.
func (s *Scheduler) nextLocked() (readq.Read, bool) {
	m := &s.mu
	if id, ok := m.queue.NextDemand(); ok {
		return s.startLocked(id), true
	}
	id, ok := s.nextPrefetchLocked()
	if !ok {
		if id, ok = s.nextWarmLocked(); ok {
			return s.startWarmLocked(id), true
		}
		return readq.Read{}, false
	}
	k, run := s.readOf(id)
	at, resident := m.table.Lookup(k)
	if resident {
		m.table.Begin(at, run.Mask)
	} else {
		var victim slot.Victim
		at, victim, _ = m.table.Acquire(k, run.Mask, slot.Prefetch)
		s.occupyLocked(k, at, victim)
	}
	if e := s.interestLocked(k); e.guess == guessQueued {
		e.guess = guessIssued
		m.stats.PrefetchIssued++
		m.table.Guess(at, true)
	}
	return s.startLocked(id), true
}

// nextPrefetchLocked returns the prefetch that may start now, if there is one.
// Prefetches use idle lanes only and leave the last one to the next demand.
func (s *Scheduler) nextPrefetchLocked() (id int, ok bool) {
	m := &s.mu
	if m.starved.len() > 0 || m.queue.InFlight() >= s.prefetchMax {
		return 0, false
	}
	id, ok = m.queue.NextPrefetch()
	if !ok {
		return 0, false
	}
	k, _ := s.readOf(id)
	_, resident := m.table.Lookup(k)
	return id, resident || m.table.CanAcquire(slot.Prefetch)
}

// startLocked takes a queued read whose expert has a slot out of the queue.
func (s *Scheduler) startLocked(id int) readq.Read {
	m := &s.mu
	if m.queue.Start(id) == readq.FlightDemand {
		return s.readLocked(id, &m.stats.DemandReads, &m.stats.DemandBytes)
	}
	return s.readLocked(id, &m.stats.PrefetchReads, &m.stats.PrefetchBytes)
}

// readLocked counts a read in flight and describes it.
func (s *Scheduler) readLocked(id int, reads, bytes *int64) readq.Read {
	k, run := s.readOf(id)
	at, _ := s.mu.table.Lookup(k)
	want := run.Extent(k.ID)
	*reads++
	*bytes += want.Bytes
	buf := s.slotBytes(at)[run.SlotOff:][:want.ReadRange().Bytes]
	return readq.Read{ID: id, Want: want, Buf: buf}
}

// finalLocked reports whether a failed read is not repeated and somebody waits
// for it.
func (s *Scheduler) finalLocked(id, at int) bool {
	m := &s.mu
	return m.queue.Class(id) == readq.FlightDemand && m.table.Pins(at) > 0 &&
		(m.attempts[id] >= retriesMax || m.closed || m.table.State(at) == slot.Failed)
}

// landLocked publishes spans whose bytes are in place.
//
// INVARIANT: a ready bit is published only after all bytes of its span are in.
func (s *Scheduler) landLocked(k expert.Key, at int, run expert.Run) {
	s.mu.table.Landed(at, run.Mask)
	s.publishLocked(k, s.mu.table.Word(at))
}

// failLocked publishes an expert as failed.
func (s *Scheduler) failLocked(k expert.Key, at int, run expert.Run) {
	m := &s.mu
	m.stats.Failures++
	m.table.Fail(at, run.Mask)
	s.cancelAllLocked(k)
	s.publishLocked(k, m.table.Word(at))
}

// dropLocked gives up a failed read that nobody waits for.
func (s *Scheduler) dropLocked(k expert.Key, at int, run expert.Run, class readq.Class) {
	m := &s.mu
	if class == readq.FlightPrefetch {
		m.stats.PrefetchFailures++
		s.interestLocked(k).warm = false
		if m.table.GiveUp(at) {
			m.stats.Wasted++
		}
	}
	if m.table.Pins(at) == 0 {
		s.cancelAllLocked(k)
	}
	m.table.Dropped(at, run.Mask)
}

// wakeLocked wakes as many idle lanes as can start a read.
func (s *Scheduler) wakeLocked() {
	m := &s.mu
	if m.idle == 0 {
		return
	}
	n := m.queue.Count(readq.QueuedDemand)
	if n == 0 {
		if _, ok := s.nextPrefetchLocked(); ok {
			n = min(m.queue.Count(readq.QueuedPrefetch), s.prefetchMax-m.queue.InFlight())
		} else if _, ok := s.nextWarmLocked(); ok {
			n = m.warm.max - m.queue.InFlight()
		}
	}
	for range min(n, m.idle) {
		m.wake.Signal()
	}
}

// dropAllLocked drops every queued read at the end. Who waits for one, or for a
// slot, sees a failed word.
func (s *Scheduler) dropAllLocked() {
	m := &s.mu
	for i := range m.interest {
		k := s.index.Key(i)
		at, resident := m.table.Lookup(k)
		dropped := s.cancelAllLocked(k)
		if dropped && resident && m.table.Pins(at) > 0 {
			m.table.Fail(at, 0)
			s.publishLocked(k, m.table.Word(at))
		}
		if m.interest[i].owed > 0 {
			s.publishLocked(k, slot.Word(-1, 0, true))
		}
	}
}
