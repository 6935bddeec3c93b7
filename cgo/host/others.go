package host

import (
	"errors"
	"fmt"
	"maps"
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

// others are the models of the process. Its lock mu is never held while that of a
// model is taken; of models, only a later one's lock is held while an earlier one's
// is taken.
var others company

// company is a set of models.
type company struct {
	// opening is a turn: one model at a time gets its first context, so that of several
	// one leads and its plan counts the others. It is taken before the lock of a
	// leader; the lock of a model is held meanwhile only if that has no engine yet.
	opening sync.Mutex

	mu       sync.Mutex // guards what follows
	streamed []*model   // that have an engine, in the order of their contexts
	members  map[*member]bool
	resident map[uintptr]*member // those without streamed experts, by the address of their llama_model
	seats    seats
}

// member is a model that was loaded, as the plan of another one counts it. The lock
// of its company guards what changes.
type member struct {
	name    string // of its file
	weights int64  // in memory since the load
	self    *model // nil where nothing of it is streamed
	tenancy

	leader  *model // whose plan counts this one, nil where none does
	counted int64  // by the leader
	whole   bool   // the first context was counted, not the weights alone
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

// remove takes a model off that is about to lose its engine. What it counted nobody
// counts any more, until one that is left counts it.
func (c *company) remove(m *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streamed = slices.DeleteFunc(c.streamed, func(other *model) bool { return other == m })
	c.abdicateLocked(m)
}

// join adds a model that was loaded.
func (c *company) join(path string, weights int64) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == nil {
		c.members, c.resident = map[*member]bool{}, map[uintptr]*member{}
	}
	r := &member{name: filepath.Base(path), weights: weights}
	c.members[r] = true
	return r
}

// leave removes a model that goes, and tells its leader, by this log.
func (c *company) leave(r *member, log *journal) {
	c.mu.Lock()
	leader, counted := r.leader, r.counted
	r.forsakeLocked()
	delete(c.members, r)
	// A context that its program never frees, or only now, is nobody's.
	maps.DeleteFunc(c.seats.taken, func(_ uintptr, s seat) bool { return s.member == r })
	c.mu.Unlock()
	if leader != nil {
		leader.release(counted, r.name, log)
	}
}

// lead makes a model the leader of those that were loaded before it had a context.
// Their weights, whose size is returned, are in memory, and in its plan from the
// beginning; so are the contexts they have.
func (c *company) lead(m *model) (weights int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for r := range c.members {
		if r != m.member {
			r.leader, r.counted, r.whole = m, r.weights, false
			r.first, r.extra = r.held, 0
			weights += r.weights
		}
	}
	return weights
}

// abdicate takes lead back.
func (c *company) abdicate(m *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abdicateLocked(m)
}

func (c *company) abdicateLocked(m *model) {
	for r := range c.members {
		if r.leader == m {
			r.forsakeLocked()
		}
	}
}

// forsakeLocked leaves a member without a leader. Of one that is not streamed, no plan has
// a context then. The lock of the company is held.
func (r *member) forsakeLocked() {
	r.leader, r.counted, r.extra, r.whole = nil, 0, 0, false
	if r.self == nil {
		r.first = 0
	}
}

// claim has the leader count a member with its first context, which take so many
// bytes, and returns those that it has not counted yet.
func (c *company) claim(leader *model, r *member, bytes int64) (more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.leader != leader {
		r.leader, r.counted, r.extra = leader, 0, 0
	}
	more = bytes + r.extra - r.counted
	r.counted, r.whole = r.counted+more, true
	return more
}

// disclaim takes the claim of a first context back.
func (c *company) disclaim(r *member, more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.counted -= more
	r.whole = false
	if r.counted == 0 {
		r.forsakeLocked()
	}
}

// forsake forgets a leader that has gone.
func (c *company) forsake(r *member, leader *model) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.leader == leader {
		r.forsakeLocked()
	}
}

// claimed is the leader that counts a member with its context, nil where none does.
func (c *company) claimed(r *member) (leader *model, counted int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.whole {
		return nil, 0
	}
	return r.leader, r.counted
}

// loaded adds a resident model.
func (c *company) loaded(id uintptr, path string, weights int64) {
	r := c.join(path, weights)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resident[id] = r
}

// uncounted is a resident model whose context no plan counts, nil where there is none.
func (c *company) uncounted(id uintptr) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.resident[id]; r != nil && !r.whole {
		return r
	}
	return nil
}

// context has a context of a resident model counted.
func (c *company) context(id, lctx uintptr, memory llama.Memory) {
	leader, told := c.count(id, memory)
	if told != "" {
		leader.log.printf(levelWarn, "%s", told)
	}
	c.mu.Lock()
	r := c.resident[id]
	c.mu.Unlock()
	if r != nil {
		c.seat(lctx, seat{r, contextBytes(memory, 0)})
	}
}

func (c *company) count(id uintptr, memory llama.Memory) (leader *model, told string) {
	c.opening.Lock()
	defer c.opening.Unlock()
	r, leader := c.uncounted(id), c.leader()
	if r == nil || leader == nil {
		return nil, ""
	}
	what := fmt.Sprintf("%s takes weights %s + kv %s + compute %s", r.name, mib(memory.ModelBytes), mib(memory.ContextBytes), mib(memory.ComputeBytes))
	more := c.claim(leader, r, memory.ModelBytes+memory.ContextBytes+memory.ComputeBytes)
	counted, err := leader.account(more)
	if err == nil {
		c.planned(r, contextBytes(memory, 0))
		return leader, what + "; " + counted
	}
	c.disclaim(r, more)
	if errors.Is(err, errNoContext) {
		return nil, ""
	}
	return leader, fmt.Sprintf("%s, for which the plan has no room: %v", what, err)
}

func (c *company) free(id uintptr) {
	c.mu.Lock()
	r := c.resident[id]
	delete(c.resident, id)
	c.mu.Unlock()
	if r != nil {
		c.leave(r, &journal{})
	}
}

// follow has a streamed model counted by the leader, or makes it the leader. What it
// returns undoes that.
func (m *model) follow(config *les.Config) (undo func(), err error) {
	for {
		leader := others.leader()
		if leader == nil {
			config.Usage.Process = others.lead(m)
			return func() { others.abdicate(m) }, nil
		}
		bounded := *config
		undo, err = m.followThis(leader, &bounded)
		if !errors.Is(err, errNoContext) { // else it has gone meanwhile
			*config = bounded
			return undo, err
		}
	}
}

// followThis has a streamed model counted by this leader. Where that has a budget, the
// slots of the follower are bounded by the share of a drafter.
func (m *model) followThis(leader *model, config *les.Config) (undo func(), err error) {
	shape := plan.ShapeOf(m.streamed.Geometry())
	if budget := leader.budget(); config.SlotsPerLayer < 0 && budget > 0 {
		config.SlotsPerLayer, _ = shape.SlotsWithin(plan.DrafterShare(budget)) // else the floor
	}
	if config.SlotsPerLayer < 0 {
		return func() {}, nil
	}
	p, err := plan.Make(shape, config.Usage, plan.Request{SlotsPerLayer: config.SlotsPerLayer})
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("%s takes weights %s + kv %s + compute %s + slots %s (%d for %d experts)",
		m.name, mib(p.Dense), mib(p.KV), mib(p.Compute+p.Work), mib(p.Slots), p.SlotCount, p.All)
	more := others.claim(leader, m.member, bytesOf(p))
	counted, err := leader.account(more)
	if err != nil {
		others.disclaim(m.member, more)
		if errors.Is(err, errNoContext) {
			return nil, err
		}
		return nil, fmt.Errorf("%s, for which %s has no room: %w", what, leader.name, err)
	}
	m.log.printf(levelWarn, "%s; %s", what, counted)
	return func() {
		others.disclaim(m.member, more)
		leader.release(more, m.name, &m.log)
	}, nil
}

// bytesOf is what a model takes whose plan another one counts.
func bytesOf(p plan.Plan) int64 { return p.Dense + p.KV + p.Compute + p.Work + p.Slots }

// recounted tells the leader of another number of slots. That it has no room for
// them is told, and changes nothing.
func (m *model) recounted(p plan.Plan) {
	leader, before := others.claimed(m.member)
	if leader == nil {
		return
	}
	more := others.claim(leader, m.member, bytesOf(p))
	counted, err := leader.account(more)
	switch {
	case errors.Is(err, errNoContext): // it has gone
		others.forsake(m.member, leader)
	case err != nil:
		others.claim(leader, m.member, bytesOf(p)-more)
		m.log.printf(levelWarn, "%s has no room for what %s takes: %v", leader.name, m.name, err)
	default:
		m.log.printf(levelWarn, "%s takes %s; %s", m.name, mib(before+more), counted)
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
