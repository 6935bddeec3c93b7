package les

/*
#include "les.h"
*/
import "C"

import (
	"errors"
	"fmt"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
)

// SetBudget gives the whole process another budget in bytes, while it runs: the pool of
// slots grows or shrinks to what the plan then says, which is returned. When it
// returns, the memory of slots that are gone is the system's again; it waits for the
// layers in progress. A budget below the floor is refused with a *plan.BudgetError, and
// nothing changes.
func (e *Engine) SetBudget(bytes int64) (plan.Plan, error) {
	return e.resize(plan.Request{Budget: bytes, SlotsPerLayer: -1}, 0)
}

// SetSlots does the same with a number of slots a layer above the floor; more than there
// are experts means all.
func (e *Engine) SetSlots(perLayer int) (plan.Plan, error) {
	return e.resize(plan.Request{SlotsPerLayer: max(0, perLayer)}, 0)
}

// Account has the plan count so many more bytes that the process holds beside this
// model, or fewer, and sizes the pool for the request. What is refused is not counted.
func (e *Engine) Account(bytes int64, request plan.Request) (plan.Plan, error) {
	return e.resize(request, bytes)
}

var errClosed = errors.New("the experts are closed")

func (e *Engine) resize(request plan.Request, beside int64) (plan.Plan, error) {
	e.arena.Lock()
	defer e.arena.Unlock()
	if e.arena.closed {
		return plan.Plan{}, errClosed
	}
	old := e.Plan()
	usage := e.usage
	usage.Process += beside
	next, err := plan.Make(old.Shape, usage, request)
	if err != nil {
		return old, err
	}
	if next.SlotCount > e.capacity {
		return old, fmt.Errorf("%d expert slots are more than the %d that the system had addresses for", next.SlotCount, e.capacity)
	}
	e.arena.populating.stop()
	if next.SlotCount < old.SlotCount {
		err = e.shrink(next.SlotCount)
	} else {
		err = e.grow(next.SlotCount)
	}
	if err != nil {
		e.arena.populating = populate(e.streamed.model, old.Slots)
		return old, err
	}
	e.arena.populating = populate(e.streamed.model, next.Slots)
	e.usage = usage
	e.plan.Store(&next)
	if next.SlotCount > old.SlotCount {
		e.Warm(e.hottest(next.SlotCount))
	}
	return next, nil
}

// shrink takes slots away, then their memory.
func (e *Engine) shrink(slots int) error {
	e.sched.SetSlots(slots)
	if !e.sched.WaitRetired() {
		return errClosed
	}
	return e.resizeArena(slots)
}

// grow brings memory, then slots.
func (e *Engine) grow(slots int) error {
	if err := e.resizeArena(slots); err != nil {
		return err
	}
	e.sched.SetSlots(slots)
	return nil
}

func (e *Engine) resizeArena(slots int) error {
	if C.les_model_resize(e.streamed.model, C.int32_t(slots)) != 0 {
		return e.streamed.takeError("changing the number of expert slots")
	}
	return nil
}

// hottest are the experts used most, for slots that have become empty.
func (e *Engine) hottest(n int) (keys []expert.Key) {
	for _, use := range e.sched.Hot(n) {
		keys = append(keys, use.Key)
	}
	return keys
}
