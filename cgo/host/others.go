package host

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
)

// A budget is for the whole process. The first streamed model that has a context
// is its leader: its plan counts what is loaded later, a drafter for example, and
// its slots make room for that.

// others are the models of the process. Its lock is never held while that of a
// model is taken; of models, only a later one's lock is held while an earlier one's
// is taken.
var others company

// company is a set of models, streamed ones in the order of their contexts.
type company struct {
	mu       sync.Mutex // guards what follows
	streamed []*model   // that have an engine
	resident map[uintptr]*resident
}

// resident is a model without streamed experts, by the address of its llama_model.
type resident struct {
	name    string
	leader  *model
	counted int64 // by the leader
}

func (c *company) leader() *model {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streamed) == 0 {
		return nil
	}
	return c.streamed[0]
}

func (c *company) add(m *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streamed = append(c.streamed, m)
}

func (c *company) remove(m *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streamed = slices.DeleteFunc(c.streamed, func(other *model) bool { return other == m })
}

func (c *company) loaded(id uintptr, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resident == nil {
		c.resident = map[uintptr]*resident{}
	}
	c.resident[id] = &resident{name: filepath.Base(path)}
}

// context has the first context of a resident model counted. Whether there are
// further ones at the same time is not known.
func (c *company) context(id uintptr, memory llama.Memory) {
	bytes := memory.ModelBytes + memory.ContextBytes + memory.ComputeBytes
	r := c.claim(id, bytes)
	if r == nil {
		return
	}
	what := fmt.Sprintf("%s takes weights %s + kv %s + compute %s", r.name, mib(memory.ModelBytes), mib(memory.ContextBytes), mib(memory.ComputeBytes))
	leader := r.leader
	counted, err := leader.account(bytes)
	if err == nil {
		leader.log.printf(levelWarn, "%s; %s", what, counted)
		return
	}
	c.disclaim(r)
	if !errors.Is(err, errNoContext) {
		leader.log.printf(levelWarn, "%s, for which the plan has no room: %v", what, err)
	}
}

// claim takes a resident model that nobody counts for the leader. Of threads that
// make contexts of it at once, one gets it, the others nil.
func (c *company) claim(id uintptr, bytes int64) *resident {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.resident[id]
	if r == nil || r.leader != nil || len(c.streamed) == 0 {
		return nil
	}
	r.leader, r.counted = c.streamed[0], bytes
	return r
}

func (c *company) disclaim(r *resident) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.leader = nil
}

func (c *company) free(id uintptr) {
	c.mu.Lock()
	r := c.resident[id]
	delete(c.resident, id)
	c.mu.Unlock()
	if r != nil && r.leader != nil {
		r.leader.release(r.counted, r.name, &r.leader.log)
	}
}

// follow has a streamed model counted by the leader, if there is one. Where that
// has a budget, the slots of the follower are bounded by the share of a drafter.
func (m *model) follow(config *les.Config) error {
	leader := others.leader()
	if leader == nil {
		return nil
	}
	shape := plan.ShapeOf(m.streamed.Geometry())
	if budget := leader.budget(); config.SlotsPerLayer < 0 && budget > 0 {
		config.SlotsPerLayer, _ = shape.SlotsWithin(plan.DrafterShare(budget)) // else the floor
	}
	if config.SlotsPerLayer < 0 {
		return nil
	}
	p, err := plan.Make(shape, config.Usage, plan.Request{SlotsPerLayer: config.SlotsPerLayer})
	if err != nil {
		return err
	}
	bytes := p.Dense + p.KV + p.Compute + p.Work + p.Slots
	what := fmt.Sprintf("%s takes weights %s + kv %s + compute %s + slots %s (%d for %d experts)",
		m.name, mib(p.Dense), mib(p.KV), mib(p.Compute+p.Work), mib(p.Slots), p.SlotCount, p.All)
	counted, err := leader.account(bytes)
	switch {
	case errors.Is(err, errNoContext): // it has gone meanwhile
		return nil
	case err != nil:
		return fmt.Errorf("%s, for which %s has no room: %w", what, leader.name, err)
	}
	m.log.printf(levelWarn, "%s; %s", what, counted)
	m.leader, m.counted = leader, bytes
	return nil
}

// recounted tells the leader of another number of slots. That it has no room for
// them is told, and changes nothing.
func (m *model) recounted(p plan.Plan) {
	if m.leader == nil {
		return
	}
	bytes := p.Dense + p.KV + p.Compute + p.Work + p.Slots
	counted, err := m.leader.account(bytes - m.counted)
	switch {
	case errors.Is(err, errNoContext): // it has gone
		m.leader = nil
	case err != nil:
		m.log.printf(levelWarn, "%s has no room for what %s takes: %v", m.leader.name, m.name, err)
	default:
		m.counted = bytes
		m.log.printf(levelWarn, "%s takes %s; %s", m.name, mib(bytes), counted)
	}
}

func (m *model) unfollow() {
	if m.leader != nil {
		m.leader.release(m.counted, m.name, &m.log)
		m.leader = nil
	}
}

func (m *model) budget() int64 {
	defer m.lock()()
	return m.asked.Budget
}

// account has the plan count what is beside the model, and returns the new plan for
// the log. Memory pressure, and what the process has outgrown its plan by, stay in
// force. It writes no line itself: a caller that holds the lock of another model
// would have the log written under that lock.
func (m *model) account(bytes int64) (counted string, err error) {
	err = m.use(func(e *les.Engine) error {
		asked, err := m.asked.Again(bytes, requestOf(m.asked))
		if err != nil {
			return err
		}
		p, err := e.Account(bytes, m.allowed(asked))
		if err == nil {
			m.asked = asked
			counted = m.name + ": " + describe(p)
		}
		return err
	})
	return counted, err
}

// release takes back what was counted for a model of that name. A leader that has
// gone does not count.
func (m *model) release(bytes int64, name string, log *journal) {
	if _, err := m.account(-bytes); err != nil && !errors.Is(err, errNoContext) {
		log.printf(levelWarn, "%s goes on counting %s for %s: %v", m.name, mib(bytes), name, err)
	}
}
