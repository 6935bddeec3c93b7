// Package plan divides the memory of a process between the parts of a model.
// There is one formula: whoever describes a model and whoever runs it gets the
// same figures. It owns no memory and asks no system; sizes come in as numbers.
package plan

import (
	"fmt"

	"github.com/les-project/les/lesext/expert"
)

// heapReserve is what the Go runtime and the scheduler's tables may still grow
// by after the plan is made: measured at 6 to 11 MiB over a long run.
const heapReserve = 12 << 20

// Usage is what a process holds besides expert slots, in bytes.
type Usage struct {
	Dense   int64 // weights in memory: neither experts nor rows that are read from the file
	KV      int64 // KV cache and recurrent state
	Compute int64 // graph buffers
	Work    int64 // the CPU backend's work buffer, allocated at the first step
	Process int64 // the rest, before the reserve for growth: vocabulary, code, runtime
}

// Shape is what the plan needs to know of a model's streamed experts.
type Shape struct {
	SlotBytes int64 // one expert slot
	Layers    int   // streamed layers
	Experts   int   // of the layer that has most
	Used      int   // experts a token uses in a layer, at most
	All       int   // experts of all layers
}

// ShapeOf counts the experts of a geometry.
func ShapeOf(g expert.Geometry) Shape {
	s := Shape{SlotBytes: g.SlotBytes, Layers: len(g.Layers)}
	for _, layer := range g.Layers {
		s.Experts = max(s.Experts, layer.Experts)
		s.Used = max(s.Used, layer.Used)
		s.All += layer.Experts
	}
	return s
}

// FloorSlots is the least pool: one token's experts of one layer in use while
// as many of the next layer are in flight.
func (s Shape) FloorSlots() int { return min(max(1, 2*s.Used), s.All) }

// SlotsWithin is how many slots a layer has above the floor in so many bytes.
func (s Shape) SlotsWithin(bytes int64) (int, error) {
	floor := int64(s.FloorSlots())
	if bytes < floor*s.SlotBytes {
		return 0, &BudgetError{Budget: bytes, Floor: floor * s.SlotBytes}
	}
	return int((bytes/s.SlotBytes - floor) / int64(s.Layers)), nil
}

// DrafterShare is what of a process's budget the slots of a drafter get where nobody
// says: an eighth, as a drafter worth having is many times smaller than its model.
func DrafterShare(budget int64) int64 { return budget / 8 }

// Request is the wish of a user: a budget for the whole process, or a number of
// slots.
type Request struct {
	Budget        int64 // in bytes, used when SlotsPerLayer is negative
	SlotsPerLayer int   // above the floor; more than there are experts means all
}

// Plan is where the memory of a process goes, in bytes.
//
//	Total = Dense + KV + Compute + Work + Process + Slots
type Plan struct {
	Usage // Process includes the reserve for growth
	Shape
	Slots     int64 // all expert slots
	SlotCount int   // their number, those of the floor included
	Floor     int64 // least budget
	Budget    int64 // 0 when the number of slots was given
	Total     int64 // peak that is planned for
}

// BudgetError says that a budget is below the floor.
type BudgetError struct{ Budget, Floor int64 }

func (e *BudgetError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("a budget of %d bytes is below the floor of %d bytes for this model and context (%d MiB; a shorter context or smaller batches lower it)",
		e.Budget, e.Floor, (e.Floor+mib-1)/mib)
}

// Make sizes the pool. On a BudgetError the plan holds the floor.
func Make(shape Shape, usage Usage, request Request) (Plan, error) {
	usage.Process += heapReserve
	p := Plan{Usage: usage, Shape: shape}
	fixed := p.fixed()
	p.Floor = fixed + int64(shape.FloorSlots())*shape.SlotBytes
	if request.SlotsPerLayer >= 0 {
		above := min(request.SlotsPerLayer, shape.Experts) * shape.Layers
		p.SlotCount = min(shape.FloorSlots()+above, shape.All)
	} else {
		p.Budget = request.Budget
		if p.Budget < p.Floor {
			return p, &BudgetError{Budget: p.Budget, Floor: p.Floor}
		}
		p.SlotCount = shape.All
		if shape.SlotBytes > 0 {
			p.SlotCount = int(min((p.Budget-fixed)/shape.SlotBytes, int64(shape.All)))
		}
	}
	p.Slots = int64(p.SlotCount) * shape.SlotBytes
	p.Total = fixed + p.Slots
	return p, nil
}

// Again makes the plan for another request, with so many more bytes that the process
// holds beside the model.
func (p Plan) Again(beside int64, request Request) (Plan, error) {
	usage := p.Usage
	usage.Process += beside - heapReserve
	return Make(p.Shape, usage, request)
}

// fixed is what no budget changes.
func (p Plan) fixed() int64 { return p.Dense + p.KV + p.Compute + p.Work + p.Process }

// Full is the total with a slot for every expert.
func (p Plan) Full() int64 { return p.fixed() + int64(p.All)*p.SlotBytes }

// SlotsPerLayer is the mean number of slots a layer has above the floor.
func (p Plan) SlotsPerLayer() float64 {
	if p.Layers == 0 {
		return 0
	}
	return float64(max(0, p.SlotCount-p.FloorSlots())) / float64(p.Layers)
}
