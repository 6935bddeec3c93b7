package les

import (
	"fmt"
	"os"
	"strings"

	"github.com/les-project/les/lesext/expert"
)

// goHeapReserve is what the Go runtime and the scheduler's tables may still
// grow by after the plan is made: measured at 6 to 11 MiB over a long run.
const goHeapReserve = 12 << 20

// Usage is what a model and its context take besides expert slots, in bytes.
type Usage struct {
	Dense   int64 // weights that are not streamed
	KV      int64 // KV cache and recurrent state
	Compute int64 // graph buffers
	Work    int64 // the CPU backend's work buffer, allocated at the first step
}

// Plan is where the memory of the process goes, in bytes.
type Plan struct {
	Usage
	Process   int64 // what the process holds besides: vocabulary, code, runtime
	Slots     int64 // all expert slots
	SlotCount int   // number of expert slots
	SlotBytes int64 // one slot
	Floor     int64 // least budget
	Budget    int64 // 0 when the number of slots was given
	Total     int64 // peak that is planned for
	Layers    int   // streamed layers
	Experts   int   // experts a layer
	Used      int   // experts a token uses in a layer
}

// BudgetError says that a budget is below the floor.
type BudgetError struct{ Budget, Floor int64 }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("a budget of %d bytes is below the floor of %d bytes for this model and context", e.Budget, e.Floor)
}

// floorSlots is the least pool: one token's experts of one layer in use while
// as many of the next layer are in flight.
func floorSlots(g expert.Geometry) int {
	used := 0
	for _, layer := range g.Layers {
		used = max(used, layer.Used)
	}
	return min(2*used, totalExperts(g))
}

func totalExperts(g expert.Geometry) int {
	n := 0
	for _, layer := range g.Layers {
		n += layer.Experts
	}
	return n
}

// makePlan sizes the pool: slotsPerLayer slots a layer above the floor, or as
// many as the budget allows when slotsPerLayer is negative.
func makePlan(g expert.Geometry, usage Usage, budget int64, slotsPerLayer int) (Plan, error) {
	p := Plan{Usage: usage, SlotBytes: g.SlotBytes, Budget: budget, Layers: len(g.Layers)}
	for _, layer := range g.Layers {
		p.Experts = max(p.Experts, layer.Experts)
		p.Used = max(p.Used, layer.Used)
	}
	// Dense weights and the cache are in memory already; graph buffers are not touched before the first step.
	p.Process = max(0, residentBytes()-usage.Dense-usage.KV) + goHeapReserve
	fixed := p.Process + usage.Dense + usage.KV + usage.Compute + usage.Work
	p.Floor = fixed + int64(floorSlots(g))*g.SlotBytes
	if slotsPerLayer >= 0 {
		p.SlotCount = min(floorSlots(g)+slotsPerLayer*len(g.Layers), totalExperts(g))
	} else {
		if budget < p.Floor {
			return p, &BudgetError{Budget: budget, Floor: p.Floor}
		}
		p.SlotCount = int(min((budget-fixed)/g.SlotBytes, int64(totalExperts(g))))
	}
	p.Slots = int64(p.SlotCount) * g.SlotBytes
	p.Total = fixed + p.Slots
	return p, nil
}

// residentBytes is the memory that the process holds now; 0 where the system
// does not tell.
func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}
