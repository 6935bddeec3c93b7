package main

import (
	"math/rand/v2"
	"time"
)

// resizing changes the number of slots of a session at random while it works.
type resizing struct {
	stopping chan struct{}
	ended    chan struct{} // closed when the goroutine has ended
	count    int
	err      error
}

// startResizing starts a goroutine that stop ends. It does nothing for a session that
// streams nothing.
func startResizing(s *session, opts verifyOptions) *resizing {
	r := &resizing{stopping: make(chan struct{}), ended: make(chan struct{})}
	if opts.resize == 0 || s.engine == nil || s.reason != "" {
		close(r.ended)
		return r
	}
	go func() {
		defer close(r.ended)
		r.run(s.engine, rand.New(rand.NewPCG(opts.seed, 0)), opts.resize)
	}()
	return r
}

func (r *resizing) run(e engine, chance *rand.Rand, most time.Duration) {
	for r.err == nil {
		select {
		case <-r.stopping:
			return
		case <-time.After(time.Duration(chance.Int64N(int64(most) + 1))):
		}
		r.err = e.SetSlots(chance.IntN(e.Plan().Experts + 1))
		r.count++
	}
}

// stop returns how often the number was changed.
func (r *resizing) stop() (int, error) {
	close(r.stopping)
	<-r.ended
	return r.count, r.err
}
