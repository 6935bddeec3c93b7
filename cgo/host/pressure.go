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
	return m.use(func(e *les.Engine) error {
		var p plan.Plan
		var err error
		switch {
		case level == pressureNone:
			p, err = e.Account(0, m.request())
		case level == pressureModerate:
			p, err = e.SetSlots(slotsOf(m.asked) / 2)
		case level == pressureCritical:
			p, err = e.SetSlots(0)
		default:
			return fmt.Errorf("memory pressure: %d is no level", level)
		}
		if err == nil {
			m.outgrown = outgrown{}
			m.log.printf(levelInfo, "memory pressure %d: %s", level, describe(p))
		}
		return err
	})
}

// request is what the load or the last change asked for.
func (m *model) request() plan.Request {
	if m.asked.Budget > 0 {
		return plan.Request{Budget: m.asked.Budget, SlotsPerLayer: -1}
	}
	return plan.Request{SlotsPerLayer: slotsOf(m.asked)}
}

// slotsOf are a plan's slots above the floor, for each layer.
func slotsOf(p plan.Plan) int {
	if p.SlotCount == p.All {
		return p.Experts
	}
	return int(p.SlotsPerLayer())
}
