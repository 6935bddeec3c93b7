package host

import (
	"fmt"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/lesext/plan"
)

// How short memory is, as les_host_pressure has it.
const (
	pressureNone = iota
	pressureModerate
	pressureCritical
)

// pressure gives slots back to a system that is short of memory, and takes them
// again afterwards. What the load asked for, or the last change of budget or
// slots, is what it comes back to.
func (m *model) pressure(level int) error {
	if level < pressureNone || level > pressureCritical {
		return fmt.Errorf("memory pressure: %d is no level", level)
	}
	return m.use(func(e *les.Engine) error {
		before := m.level
		m.level = level
		p, err := e.Account(0, m.allowed(m.asked))
		if err != nil {
			m.level = before
			return err
		}
		m.log.printf(levelInfo, "memory pressure %d: %s", level, describe(p))
		return nil
	})
}

// allowed is the pool that a plan asks for, without what the process has outgrown it
// by and what memory pressure takes away.
func (m *model) allowed(asked plan.Plan) plan.Request {
	unpressed, request := m.unpressed(asked)
	if m.level == pressureNone {
		return request
	}
	few := plan.Request{} // the floor
	if m.level == pressureModerate {
		few.SlotsPerLayer = slotsOf(asked) / 2
	}
	if pressed, err := asked.Again(0, few); err == nil && pressed.SlotCount < unpressed.SlotCount {
		return few
	}
	return request
}

// unpressed is what allowed would be if the system were not short of memory.
func (m *model) unpressed(asked plan.Plan) (plan.Plan, plan.Request) {
	request := requestOf(asked)
	if request.Budget > 0 {
		request.Budget -= m.outgrown.bytes
	}
	p, err := asked.Again(0, request)
	if err != nil {
		request = plan.Request{} // below the floor there is nothing to give
		p, _ = asked.Again(0, request)
	}
	return p, request
}

// requestOf is what a plan was made for.
func requestOf(asked plan.Plan) plan.Request {
	if asked.Budget > 0 {
		return plan.Request{Budget: asked.Budget, SlotsPerLayer: -1}
	}
	return plan.Request{SlotsPerLayer: slotsOf(asked)}
}

// slotsOf are a plan's slots above the floor, for each layer.
func slotsOf(p plan.Plan) int {
	if p.SlotCount == p.All {
		return p.Experts
	}
	return int(p.SlotsPerLayer())
}
