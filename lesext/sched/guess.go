package sched

import (
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/predict"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/slot"
)

// cuts are the settings of the lookahead: how often guesses of a rank that are
// not in memory must come true to get a prefetch, in parts of predict.Whole. The
// first one is never reached: no prefetch at all. A guess that is right in one
// of two cases moves as many bytes in vain as it moves ahead of time, which pays
// only where flash is idle.
var cuts = [...]int{2 * predict.Whole, predict.Whole / 2, predict.Whole / 4}

// cutFirst is where tuning begins, and what holds without it. A quarter leaves
// out guesses hardly better than chance, as for a layer whose input says nothing
// about the next one, and keeps the rest.
const cutFirst = 2

// decodeTokensMax is the widest step that counts as decode: wider ones are not
// guessed for, see LES_PREDICT_TOKENS_MAX on the C side.
const decodeTokensMax = 8

// tuneLocked chooses the cut for the step that begins with the first layer, and
// says whether guesses are of any use to it.
func (s *Scheduler) tuneLocked(layer, tokens int) {
	m := &s.mu
	switch {
	case layer != 0 || s.config.Lookahead == 0:
		return
	case s.wholeLocked():
		s.wantGuessesLocked(false)
		return
	case m.chooser == nil:
	case tokens > decodeTokensMax:
		m.chooser.Interrupt()
	default:
		m.cut = cuts[m.chooser.Step(s.config.Now(), tokens)]
	}
	s.wantGuessesLocked(m.cut != cuts[0])
}

// wantGuessesLocked tells when guesses are of use. Routes record them always.
func (s *Scheduler) wantGuessesLocked(wanted bool) {
	wanted = wanted || s.config.Routes != nil
	if m := &s.mu; m.unwanted == wanted && s.config.OnLookahead != nil {
		m.unwanted = !wanted
		s.config.OnLookahead(wanted)
	}
}

// wholeLocked reports whether every expert is in memory to stay.
func (s *Scheduler) wholeLocked() bool {
	return s.mu.table.Slots() >= s.index.Len() && s.idleLocked() && !s.mu.table.CanAcquire(slot.Warm)
}

// cutLocked is the cut that holds but for trials.
func (s *Scheduler) cutLocked() int {
	switch {
	case s.config.Lookahead == 0:
		return cuts[0]
	case s.mu.chooser != nil:
		return cuts[s.mu.chooser.Best()]
	}
	return s.mu.cut
}

// guessLocked protects a guessed expert and queues the reads of what is missing.
// A queued prefetch has no slot; it gets one when a lane takes it.
func (s *Scheduler) guessLocked(k expert.Key, rank int) {
	m := &s.mu
	e := s.interestLocked(k)
	if e.owed > 0 {
		return
	}
	missing := s.config.Geometry.Layers[k.Layer].AllSpans()
	if at, resident := m.table.Lookup(k); resident {
		if m.table.Pins(at) > 0 || m.table.State(at) == slot.Failed {
			return
		}
		m.table.Guess(at, false)
		missing &^= m.table.Ready(at) | m.table.Reading(at)
	}
	if missing == 0 || e.guess != noGuess {
		return
	}
	if m.tracker.Missing(int(k.Layer), k.ID, rank) < m.cut {
		m.stats.Cut++
		return
	}
	e.guess = guessQueued
	m.pending[k.Layer] = append(m.pending[k.Layer], k.ID)
	m.stats.PrefetchQueued++
	for i, run := range s.runs[k.Layer] {
		if run.Mask&missing != 0 {
			m.queue.PushPrefetch(s.readID(k, i), rank)
		}
	}
}

// expireLocked ends the guesses of a layer that has routed: what is queued is
// dropped, what was read in vain is the next to be evicted. The experts that
// were routed are pinned by now, or wait for a slot.
func (s *Scheduler) expireLocked(layer int) {
	m := &s.mu
	for _, id := range m.pending[layer] {
		k := expert.Key{Layer: int32(layer), ID: id}
		e := s.interestLocked(k)
		s.cancelGuessLocked(k)
		if e.guess == guessQueued {
			if s.wantedLocked(k) {
				m.stats.Promoted++
			} else {
				m.stats.Cancelled++
			}
		}
		e.guess = noGuess
	}
	m.pending[layer] = m.pending[layer][:0]
	m.stats.Wasted += int64(m.table.Expire(layer))
}

// wantedLocked reports whether somebody needs the expert now.
func (s *Scheduler) wantedLocked(k expert.Key) bool {
	at, resident := s.mu.table.Lookup(k)
	return resident && s.mu.table.Pins(at) > 0 || s.interestLocked(k).owed > 0
}

// cancelGuessLocked drops the queued prefetches of an expert.
func (s *Scheduler) cancelGuessLocked(k expert.Key) {
	q := s.mu.queue
	for i := range s.runs[k.Layer] {
		if id := s.readID(k, i); q.Class(id) == readq.QueuedPrefetch {
			q.Cancel(id)
		}
	}
}

// cancelAllLocked drops all queued reads of an expert. It reports whether there
// was a demand among them.
func (s *Scheduler) cancelAllLocked(k expert.Key) (demand bool) {
	m := &s.mu
	s.cancelGuessLocked(k)
	for i, run := range s.runs[k.Layer] {
		if id := s.readID(k, i); m.queue.Cancel(id) {
			at, _ := m.table.Lookup(k)
			m.table.Dropped(at, run.Mask)
			m.attempts[id] = 0
			demand = true
		}
	}
	return demand
}
