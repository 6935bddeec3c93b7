package plan_test

import (
	"errors"
	"math"
	"testing"

	"github.com/les-project/les/lesext/plan"
)

var (
	shape = plan.Shape{SlotBytes: 100, Layers: 4, Experts: 8, Used: 2, All: 32}
	usage = plan.Usage{Dense: 1000, KV: 200, Compute: 30, Work: 4, Process: 50000}
)

func TestPartsAddUpToTheTotal(t *testing.T) {
	for slots, want := range map[int]int{0: 4, 1: 8, 7: 32, 8: 32, math.MaxInt: 32} {
		p, err := plan.Make(shape, usage, plan.Request{SlotsPerLayer: slots})
		if err != nil || p.SlotCount != want || p.Slots != int64(want)*100 {
			t.Errorf("%d slots a layer: %d in all, error %v, want %d", slots, p.SlotCount, err, want)
		}
		if sum := p.Dense + p.KV + p.Compute + p.Work + p.Process + p.Slots; sum != p.Total {
			t.Errorf("parts are %d, total is %d", sum, p.Total)
		}
		if p.Process <= usage.Process {
			t.Errorf("no reserve in %d", p.Process)
		}
	}
}

func TestBudgetIsNeverPassed(t *testing.T) {
	floor, err := plan.Make(shape, usage, plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	for extra, want := range map[int64]int{0: 4, 99: 4, 100: 5, 2700: 31, 2800: 32, 1 << 40: 32} {
		p, err := plan.Make(shape, usage, plan.Request{SlotsPerLayer: -1, Budget: floor.Floor + extra})
		if err != nil || p.SlotCount != want || p.Total > p.Budget || p.Floor != floor.Floor {
			t.Errorf("%d above the floor: %+v, error %v, want %d slots", extra, p, err, want)
		}
	}
	_, err = plan.Make(shape, usage, plan.Request{SlotsPerLayer: -1, Budget: floor.Floor - 1})
	var below *plan.BudgetError
	if !errors.As(err, &below) || below.Budget != floor.Floor-1 || below.Floor != floor.Floor {
		t.Errorf("error is %v", err)
	}
}

func TestPlanMadeAgainCountsWhatIsBesideOnce(t *testing.T) {
	p, err := plan.Make(shape, usage, plan.Request{SlotsPerLayer: 8})
	if err != nil {
		t.Fatal(err)
	}
	request := plan.Request{SlotsPerLayer: -1, Budget: p.Total}
	again, err := p.Again(0, request)
	if err != nil || again.Total != p.Total || again.Usage != p.Usage {
		t.Errorf("%+v, error %v, want %+v", again, err, p)
	}
	beside, err := p.Again(150, request)
	if err != nil || beside.Process != p.Process+150 || beside.SlotCount != p.SlotCount-2 {
		t.Errorf("150 bytes beside: %+v, error %v", beside, err)
	}
}

func TestSlotsPerLayerAreThoseAboveTheFloor(t *testing.T) {
	p, err := plan.Make(shape, usage, plan.Request{SlotsPerLayer: 3})
	if err != nil || p.SlotsPerLayer() != 3 {
		t.Errorf("%v slots a layer, error %v, want 3", p.SlotsPerLayer(), err)
	}
	all, _ := plan.Make(shape, usage, plan.Request{SlotsPerLayer: 8})
	if all.Total != all.Full() {
		t.Errorf("total %d with all slots, full %d", all.Total, all.Full())
	}
}

func TestFloorFitsTheModel(t *testing.T) {
	for _, c := range []struct{ used, all, want int }{{2, 32, 4}, {8, 10, 10}, {0, 5, 1}, {1, 1, 1}} {
		if got := (plan.Shape{Used: c.used, All: c.all}).FloorSlots(); got != c.want {
			t.Errorf("floor is %d for %+v", got, c)
		}
	}
}
