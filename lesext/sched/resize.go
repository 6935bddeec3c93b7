package sched

import "fmt"

// retireStep is how many slots are taken away before the lock is given up for a
// moment: some ten microseconds, as compute threads look for a lock before they sleep.
const retireStep = 32

// SetSlots changes the number of expert slots, 1 to what the arena has room for. It
// waits for nothing: slots that are taken away go when they settle, those that
// are added are empty. Experts that wait for a slot get one as before. After Close it
// does nothing. Calls must not overlap.
func (s *Scheduler) SetSlots(n int) {
	if n < 1 || n > s.config.capacity() {
		panic(fmt.Sprintf("sched: %d expert slots, want 1 to %d", n, s.config.capacity()))
	}
	for s.setSomeSlots(n) {
	}
}

// setSomeSlots goes one step towards n and reports whether more are to follow.
func (s *Scheduler) setSomeSlots(n int) (more bool) {
	m := &s.mu
	m.Lock()
	defer m.Unlock()
	if m.closed {
		return false
	}
	old := m.table.Slots()
	if n < old {
		to := max(n, old-retireStep)
		m.table.Resize(to)
		for at := to; at < old; at++ {
			s.retireLocked(at)
		}
		s.retiredLocked()
		return to > n
	}
	m.table.Resize(n)
	s.serveStarvedLocked()
	s.wakeLocked()
	return false
}

// WaitRetired waits until no expert is in a slot that was taken away: for the reads and
// the layers in progress. The memory of these slots is not touched any more until
// SetSlots adds them again. It returns false if the scheduler was closed first.
func (s *Scheduler) WaitRetired() bool {
	m := &s.mu
	m.Lock()
	defer m.Unlock()
	for m.table.Retiring() > 0 && !m.closed {
		m.retired.Wait()
	}
	return !m.closed
}

// retireLocked takes the expert out of a slot that is to go, if it can be taken now.
//
// INVARIANT: the expert is published as absent before its slot counts as retired.
func (s *Scheduler) retireLocked(at int) {
	if victim, ok := s.mu.table.Retire(at); ok {
		s.mu.stats.Retired++
		s.withdrawLocked(victim)
		s.poisonLocked(at)
	}
}

// retiredLocked tells those who wait that the last slot to go has gone.
func (s *Scheduler) retiredLocked() {
	if s.mu.table.Retiring() == 0 {
		s.mu.retired.Broadcast()
	}
}
