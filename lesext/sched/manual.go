package sched

import "github.com/les-project/les/lesext/readq"

// Next returns the read that is due now, if there is one. It is for Manual
// schedulers, whose caller is the lanes.
func (s *Scheduler) Next() (readq.Read, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return readq.Read{}, false
	}
	return s.nextLocked()
}

// Done hands back a read that Next returned, with its result.
func (s *Scheduler) Done(r readq.Read, err error) { lane{s}.Done(r, err) }
