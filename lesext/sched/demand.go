package sched

import (
	"fmt"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/internal/invariants"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/slot"
)

// poison fills a slot before each use in builds with invariants, so that bytes
// nobody has read are seen in the results.
const poison = 0xA5

// lookupLocked classifies one routed expert as a hit, join or miss, pins it if
// it has a slot and puts it into the queue of starved experts otherwise. Nothing
// is evicted before all experts of the step that are in memory have been pinned.
func (s *Scheduler) lookupLocked(k expert.Key, spans uint32) lookup {
	m := &s.mu
	at, resident := m.table.Lookup(k)
	if !resident {
		return s.wantLocked(k, spans)
	}
	firstUse := m.table.Pin(at)
	if e := s.interestLocked(k); e.warm {
		e.warm = false
		m.stats.WarmUseful++
	}
	missing := spans &^ m.table.Ready(at)
	if firstUse {
		m.stats.Useful++
		if missing != 0 {
			m.stats.Late++
		}
	}
	found := miss
	switch {
	case missing == 0:
		found = hit
	case m.table.State(at) == slot.Failed || !s.demandLocked(k, at, missing):
		found = join
	}
	return found
}

// wantLocked queues an expert without a slot for one.
func (s *Scheduler) wantLocked(k expert.Key, spans uint32) lookup {
	m := &s.mu
	e := s.interestLocked(k)
	found := miss
	if e.owed > 0 {
		found = join
	}
	m.starved.want(e)
	e.need |= uint8(spans)
	if !e.waiting {
		e.waiting = true
		m.starved.push(k)
	}
	return found
}

// demandLocked makes demand reads of the missing spans of an expert that has a
// slot. It reports whether a read had to be queued that nobody had asked for.
func (s *Scheduler) demandLocked(k expert.Key, at int, missing uint32) (queued bool) {
	m := &s.mu
	for i, run := range s.runs[k.Layer] {
		if run.Mask&missing == 0 {
			continue
		}
		switch id := s.readID(k, i); m.queue.Class(id) {
		case readq.Idle:
			m.table.Begin(at, run.Mask)
			m.queue.PushDemand(id)
			queued = true
		case readq.QueuedPrefetch:
			m.table.Begin(at, run.Mask)
			m.queue.Promote(id)
		case readq.FlightPrefetch:
			m.queue.Promote(id)
		}
	}
	return queued
}

// serveStarvedLocked gives slots to the experts that wait for one, in order, as
// far as slots can be had.
func (s *Scheduler) serveStarvedLocked() {
	m := &s.mu
	for !m.closed {
		k, ok := m.starved.first()
		if !ok {
			return
		}
		e := s.interestLocked(k)
		if e.owed == 0 { // given up
			m.starved.pop()
			e.waiting = false
			continue
		}
		mask := s.wholeRuns(k.Layer, uint32(e.need))
		at, victim, ok := m.table.Acquire(k, mask, slot.Demand)
		if !ok {
			return
		}
		m.starved.pop()
		s.occupyLocked(k, at, victim)
		for range e.owed {
			m.table.Pin(at)
		}
		m.starved.satisfy(e)
		*e = interest{guess: e.guess, seen: true}
		for i, run := range s.runs[k.Layer] {
			if run.Mask&mask != 0 {
				m.queue.PushDemand(s.readID(k, i))
			}
		}
	}
}

// wholeRuns widens a mask of spans to those that are read together.
func (s *Scheduler) wholeRuns(layer int32, spans uint32) (mask uint32) {
	for _, run := range s.runs[layer] {
		if run.Mask&spans != 0 {
			mask |= run.Mask
		}
	}
	return mask
}

// occupyLocked does what is due when an expert has taken the slot of another.
//
// INVARIANT: the old expert is published as absent before the first read into
// its slot starts.
func (s *Scheduler) occupyLocked(k expert.Key, at int, victim slot.Victim) {
	m := &s.mu
	if victim.Evicted {
		m.stats.Evictions++
		s.withdrawLocked(victim)
	}
	e := s.interestLocked(k)
	if e.seen {
		m.stats.Rereads++
	}
	e.seen = true
	s.poisonLocked(at)
}

// withdrawLocked ends all that concerns an expert that has lost its slot.
func (s *Scheduler) withdrawLocked(victim slot.Victim) {
	if victim.Unused {
		s.mu.stats.Wasted++
	}
	s.interestLocked(victim.Key).warm = false
	s.cancelGuessLocked(victim.Key)
	s.publishLocked(victim.Key, 0)
}

func (s *Scheduler) poisonLocked(at int) {
	if invariants.Enabled {
		buf := s.slotBytes(at)
		for i := range buf {
			buf[i] = poison
		}
	}
}

// releaseLocked takes back one pin, or the wish for one. Queued reads that
// nobody waits for any more are dropped.
func (s *Scheduler) releaseLocked(k expert.Key) {
	m := &s.mu
	at, resident := m.table.Lookup(k)
	if resident {
		if m.table.Unpin(at) == 0 && m.table.Reading(at) != 0 {
			s.cancelAllLocked(k)
		}
		s.tidyLocked(at)
		return
	}
	e := s.interestLocked(k)
	if e.owed == 0 {
		panic(fmt.Sprintf("sched: expert %v is released more often than routed", k))
	}
	m.starved.unwant(e)
}

// tidyLocked empties an idle slot that holds nothing of use: the expert has
// failed, or nothing of it was read. One that is to go is retired.
func (s *Scheduler) tidyLocked(at int) {
	defer s.retiredLocked()
	t := s.mu.table
	failed := t.State(at) == slot.Failed
	if t.Pins(at) > 0 || t.Reading(at) != 0 {
		return
	}
	if !failed && t.Ready(at) != 0 {
		s.retireLocked(at)
		return
	}
	k, _ := t.Key(at)
	s.interestLocked(k).warm = false
	s.cancelGuessLocked(k)
	if failed {
		s.publishLocked(k, 0)
	}
	t.Clear(at)
}

// countStarvedLocked returns how many of the experts have no slot, and counts
// them.
func (s *Scheduler) countStarvedLocked(layer int, ids []int32) (starved int) {
	for _, id := range ids {
		k := expert.Key{Layer: int32(layer), ID: id}
		if s.interestLocked(k).owed > 0 {
			starved++
		}
	}
	s.mu.stats.Starved += int64(starved)
	return starved
}

func (s *Scheduler) publishLocked(k expert.Key, word uint32) {
	s.config.Publisher.Publish(int(k.Layer), int(k.ID), word)
}

// slotBytes returns the memory of a slot.
func (s *Scheduler) slotBytes(at int) []byte {
	size := s.config.Geometry.SlotBytes
	return s.config.Arena[int64(at)*size:][:size:size]
}
