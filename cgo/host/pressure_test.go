package host

import (
	"testing"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
)

const reference = "../../models/les-ref.gguf"

// load loads the reference model and makes a context of it. The engine of the process
// is this package; options are those of SetOption.
func load(t *testing.T, options map[string]string) *llama.Model {
	t.Helper()
	llama.Init()
	if err := Register(); err != nil {
		t.Fatal(err)
	}
	ResetOptions()
	t.Cleanup(ResetOptions)
	for name, value := range options {
		if err := SetOption(name, value); err != nil {
			t.Fatal(err)
		}
	}
	model, err := llama.LoadModel(reference, llama.ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

func makeContext(t *testing.T, model *llama.Model) {
	t.Helper()
	lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lctx.Close)
}

// lead loads a leader with room for all its experts and for another model.
func lead(t *testing.T) *model {
	t.Helper()
	makeContext(t, load(t, map[string]string{"budget": "2G"}))
	return others.leader()
}

func (m *model) planNow(t *testing.T) (p plan.Plan) {
	t.Helper()
	if err := m.use(func(e *les.Engine) error { p = e.Plan(); return nil }); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPressureStaysInForceWhileAnotherModelIsCounted(t *testing.T) {
	leader := lead(t)
	full := leader.planNow(t)
	for level, want := range map[int]int{pressureModerate: full.FloorSlots() + full.Experts/2*full.Layers, pressureCritical: full.FloorSlots()} {
		if err := leader.pressure(level); err != nil {
			t.Fatal(err)
		}
		if _, err := leader.account(100 << 20); err != nil {
			t.Fatal(err)
		}
		if p := leader.planNow(t); p.SlotCount != want {
			t.Errorf("pressure %d: %d slots with another model, want %d", level, p.SlotCount, want)
		}
		if _, err := leader.account(-100 << 20); err != nil {
			t.Fatal(err)
		}
		if p := leader.planNow(t); p.SlotCount != want {
			t.Errorf("pressure %d: %d slots when it has gone, want %d", level, p.SlotCount, want)
		}
	}
	if err := leader.pressure(pressureNone); err != nil {
		t.Fatal(err)
	}
	if p := leader.planNow(t); p.SlotCount != full.SlotCount || p.Budget != full.Budget {
		t.Errorf("afterwards %+v, before %+v", p, full)
	}
}

func TestRoomThatWasMadeStaysWhileAnotherModelIsCounted(t *testing.T) {
	leader := lead(t)
	full := leader.planNow(t)
	leader.mu.Lock()
	leader.outgrown.bytes = full.Budget - full.Total + 10*full.SlotBytes
	leader.mu.Unlock()
	want := full.SlotCount - 10
	for _, level := range []int{pressureNone, pressureCritical, pressureNone} {
		if err := leader.pressure(level); err != nil {
			t.Fatal(err)
		}
		if p := leader.planNow(t); level == pressureNone && p.SlotCount != want {
			t.Errorf("%d slots, want %d", p.SlotCount, want)
		}
	}
	if _, err := leader.account(20 * full.SlotBytes); err != nil {
		t.Fatal(err)
	}
	if p := leader.planNow(t); p.SlotCount != want-20 {
		t.Errorf("%d slots with another model, want %d", p.SlotCount, want-20)
	}
	if err := leader.pressure(pressureCritical); err != nil {
		t.Fatal(err)
	}
	leader.mu.Lock()
	leader.outgrown.roomy = guardPatience
	leader.mu.Unlock()
	leader.makeRoom()
	if p := leader.planNow(t); p.SlotCount != full.FloorSlots() {
		t.Errorf("a look under pressure leaves %d slots, want %d", p.SlotCount, full.FloorSlots())
	}
	if leader.setSlots(0); leader.level != pressureNone || leader.outgrown.bytes != 0 {
		t.Errorf("a change leaves pressure %d and %+v", leader.level, leader.outgrown)
	}
}
