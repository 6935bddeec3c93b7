// Package trace keeps the routes of a step in a buffer that is emptied into a file
// between steps. The buffer has a fixed size, and nil records nothing, so that
// tracing that is off costs one test. It has no clock and no lock: its owner passes
// the time and serialises all calls.
package trace

// Set is the experts that one layer routed to in one step, or that were guessed
// for its coming step.
type Set struct {
	TimeNS  int64   // since the run began
	Layer   int     // number among the streamed layers
	Tokens  int     // of the step; 0 for a guess
	IDs     []int32 // distinct; best first for a guess
	Guessed bool
}

// Routes buffers the sets of a step until somebody takes them. What does not
// fit is counted and dropped.
type Routes struct {
	sets []Set
	ids  []int32
	lost int64
}

// NewRoutes returns a buffer for so many sets, with so many experts in all.
func NewRoutes(setsMax, expertsMax int) *Routes {
	return &Routes{sets: make([]Set, 0, setsMax), ids: make([]int32, 0, expertsMax)}
}

// Record adds a copy of a set.
func (r *Routes) Record(s Set) {
	if r == nil {
		return
	}
	begin := len(r.ids)
	if len(r.sets) == cap(r.sets) || begin+len(s.IDs) > cap(r.ids) {
		r.lost++
		return
	}
	r.ids = append(r.ids, s.IDs...)
	s.IDs = r.ids[begin:]
	r.sets = append(r.sets, s)
}

// Drain hands over all sets in order, empties the buffer and returns how many
// sets found no room in it. A set is valid during the call only. The error is
// that of the first visit that failed, after which none follows.
func (r *Routes) Drain(visit func(Set) error) (lost int64, err error) {
	if r == nil {
		return 0, nil
	}
	for _, s := range r.sets {
		if err = visit(s); err != nil {
			break
		}
	}
	lost = r.lost
	r.sets, r.ids, r.lost = r.sets[:0], r.ids[:0], 0
	return lost, err
}
