package host

import (
	"errors"

	"github.com/les-project/les/cgo/llama"
)

// A plan has the first context of each model in it. Further ones, as those that draft
// with a model's own NextN block or of an application with several talks, are counted
// as long as they are there; the room of the first is kept.

// seat is a context that is there.
type seat struct {
	member *member
	bytes  int64
}

// seats are those of a company, by the address of their llama_context, and those that
// are being freed, by a number. The lock of the company guards them.
type seats struct {
	taken   map[uintptr]seat
	leaving map[uintptr]seat
	last    uintptr // number
}

// tenancy is what a member has for its contexts, in bytes. The lock of its company
// guards it.
type tenancy struct {
	first int64 // in a plan with the model itself, or in memory before there was a plan
	held  int64 // by all contexts that were told of
	extra int64 // counted beyond first
}

// wanted is what is to be counted beyond the first context.
func (t *tenancy) wanted() int64 { return max(0, t.held-t.first) }

// planned tells that a plan has a first context of a member, which takes so many bytes,
// before it is told of: another thread may tell of a further one meanwhile.
func (c *company) planned(r *member, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.first += bytes
}

// seat tells of a context that was made.
func (c *company) seat(id uintptr, s seat) {
	c.opening.Lock()
	leader, told := c.seatFurther(id, s)
	c.opening.Unlock()
	if told != "" {
		leader.log.printf(levelWarn, "%s", told)
	}
}

func (c *company) seatFurther(id uintptr, s seat) (leader *model, told string) {
	leader, more := c.take(id, s)
	if leader == nil || more == 0 {
		return nil, ""
	}
	r, bytes := s.member, s.bytes
	what := "another context of " + r.name + " takes " + mib(bytes)
	counted, err := leader.account(more)
	if err == nil {
		return leader, what + "; " + counted
	}
	c.untake(r, leader, more)
	if errors.Is(err, errNoContext) {
		return nil, ""
	}
	return leader, what + ", for which the plan has no room: " + err.Error()
}

// take notes a context, and what its member's leader is to count more.
func (c *company) take(id uintptr, s seat) (leader *model, more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seats.taken == nil {
		c.seats.taken, c.seats.leaving = map[uintptr]seat{}, map[uintptr]seat{}
	}
	c.seats.taken[id] = s
	r := s.member
	r.held += s.bytes
	if leader = c.counting(r); leader == nil {
		return nil, 0
	}
	more = r.wanted() - r.extra
	r.adjustLocked(more)
	return leader, more
}

// counting is the model whose plan counts a member: its leader, or itself; nil where no
// plan has its first context. The lock of the company is held.
func (c *company) counting(r *member) *model {
	if r.self != nil && r.leader == nil && len(c.streamed) > 0 && c.streamed[0] == r.self {
		return r.self
	}
	if !r.whole {
		return nil
	}
	return r.leader
}

// untake takes back what a plan has no room for. A leader that has gone meanwhile has
// been forgotten with all it counted.
func (c *company) untake(r *member, leader *model, more int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counting(r) == leader {
		r.adjustLocked(-more)
	}
}

// adjustLocked changes what is counted beyond the first context. The lock of the company
// is held.
func (r *member) adjustLocked(more int64) {
	r.extra += more
	if r.leader != nil {
		r.counted += more
	}
}

// leaves begins the end of a context, whose address may be another one's as soon as it
// is freed. The number it returns is for left; 0 where nobody knows the context.
func (c *company) leaves(id uintptr) uintptr {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.seats.taken[id]
	if !known {
		return 0
	}
	delete(c.seats.taken, id)
	c.seats.last++
	c.seats.leaving[c.seats.last] = s
	return c.seats.last
}

// left tells that a context was freed.
func (c *company) left(number uintptr) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if r, leader, less := c.vacate(number); less > 0 {
		leader.release(less, "a context of "+r.name, &leader.log)
	}
}

// vacate notes that a context is gone, and what is to be counted less: nothing where the
// plan had no room for one that is still there.
func (c *company) vacate(number uintptr) (r *member, leader *model, less int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.seats.leaving[number]
	delete(c.seats.leaving, number)
	r = s.member
	r.held -= s.bytes
	if leader = c.counting(r); leader != nil {
		less = max(0, r.extra-r.wanted())
		r.adjustLocked(-less)
	}
	return r, leader, less
}

// contextBytes is what a context takes beside the weights, with the processor's work
// buffer.
func contextBytes(memory llama.Memory, work int64) int64 {
	return memory.ContextBytes + memory.ComputeBytes + work
}
