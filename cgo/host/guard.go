package host

import (
	"sync"
	"time"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/lesext/plan"
)

// A program goes on taking memory after its plan is made: llama-server keeps
// states of prompts, for example. The guard looks what the process holds, and
// slots make room for what it has outgrown its budget by.
const (
	// guardEvery: a look took 77 to 324 us on two busy cores, with 3 GiB in memory as
	// with none, so ten a second cost at most 0.3 % of one core.
	guardEvery = 100 * time.Millisecond
	// guardSpare is what is made room for beyond what is missing, so that not every
	// look takes slots away; twice as much must be free before slots come back. It is
	// chosen, not measured: more than half of the 114 MiB by which a server with
	// 8 clients and 4 GiB was seen to outgrow its plan, so that two steps reached that.
	guardSpareBytes = 64 << 20
	// guardPatience is how many looks in turn must find room before slots come back:
	// half a minute. It is chosen, not measured: slots that come back are read again, and
	// what llama-server holds for a request goes with the request.
	guardPatience = 300
)

// outgrown is how far a process has outgrown its plan.
type outgrown struct {
	bytes int64 // slots make room for these
	roomy int   // looks in turn that found room
}

// look takes what the process holds, and reports whether the pool must change.
// The spare part is that of a small budget too.
func (o *outgrown) look(held, budget int64) bool {
	spare := min(guardSpareBytes, budget/32)
	if held > budget {
		o.bytes += held - budget + spare
		o.roomy = 0
		return true
	}
	if o.bytes == 0 || budget-held < 2*spare {
		o.roomy = 0
		return false
	}
	if o.roomy++; o.roomy < guardPatience {
		return false
	}
	o.bytes = max(0, o.bytes-(budget-held-spare))
	o.roomy = 0
	return true
}

// guard watches over one model until it is stopped.
type guard struct {
	done   chan struct{}
	exited sync.WaitGroup
}

func startGuard(m *model) *guard {
	g := &guard{done: make(chan struct{})}
	g.exited.Go(func() {
		ticker := time.NewTicker(guardEvery)
		defer ticker.Stop()
		for {
			select {
			case <-g.done:
				return
			case <-ticker.C:
				m.makeRoom()
			}
		}
	})
	return g
}

// stop ends the guard. A model that never had a context has none.
func (g *guard) stop() {
	if g == nil {
		return
	}
	close(g.done)
	g.exited.Wait()
}

// makeRoom changes the pool if the process has outgrown its budget, or fits it again.
// What memory pressure has taken from the pool is not room.
func (m *model) makeRoom() {
	m.use(func(e *les.Engine) error {
		before := e.Plan()
		unpressed, _ := m.unpressed(m.asked)
		held := les.AnonymousBytes() + max(0, unpressed.Slots-before.Slots)
		if m.asked.Budget == 0 || !m.outgrown.look(held, m.asked.Budget) {
			return nil
		}
		p, err := e.Account(0, m.allowed(m.asked))
		if err == nil && p.SlotCount != before.SlotCount {
			m.tellRoom(m.outgrown.bytes, p)
		}
		return err
	})
}

// tellRoom writes the first loss of slots where every program shows it.
func (m *model) tellRoom(outgrown int64, p plan.Plan) {
	level := levelInfo
	if !m.outgrewTold {
		m.outgrewTold, level = true, levelWarn
	}
	m.log.printf(level, "the process has outgrown its plan by %s: %d expert slots", mib(outgrown), p.SlotCount)
}
