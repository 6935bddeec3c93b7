package host

import (
	"testing"

	"github.com/les-project/les/cgo/llama"
)

func contextOf(t *testing.T, model *llama.Model, tokens int) (lctx *llama.Context, bytes int64) {
	t.Helper()
	lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lctx.Close)
	memory := lctx.Memory()
	return lctx, memory.ContextBytes + memory.ComputeBytes
}

// The model leads, follows, or is not streamed.
func TestFurtherContextsAreCountedAsLongAsTheyAreThere(t *testing.T) {
	for _, kind := range []string{"leader", "follower", "resident"} {
		t.Run(kind, func(t *testing.T) {
			var loaded *llama.Model
			var leader *model
			if kind == "leader" {
				loaded = load(t, map[string]string{"budget": "2G"})
			} else {
				leader = lead(t)
				loaded = load(t, map[string]string{"mode": map[string]string{"follower": "on", "resident": "off"}[kind]})
			}
			first, _ := contextOf(t, loaded, 512)
			if leader == nil {
				leader = others.leader()
			}
			before := leader.planNow(t)
			second, more := contextOf(t, loaded, 2048)
			if p := leader.planNow(t); p.Process < before.Process+more || p.Total > p.Budget {
				t.Errorf("a second context takes %d, the plan before %+v, now %+v", more, before, p)
			}
			_, third := contextOf(t, loaded, 512)
			all := leader.planNow(t)
			if all.Process < before.Process+more+third {
				t.Errorf("a third one takes %d, the plan is %+v", third, all)
			}
			second.Close()
			if p := leader.planNow(t); p.Process < before.Process+third || p.Process > all.Process-more {
				t.Errorf("without the second one it is %+v", p)
			}
			first.Close()
			if p := leader.planNow(t); p.Process != before.Process || p.SlotCount != before.SlotCount {
				t.Errorf("of one context the plan is %+v, before %+v", p, before)
			}
			again, _ := contextOf(t, loaded, 512)
			again.Close()
			if p := leader.planNow(t); p.Process != before.Process {
				t.Errorf("after contexts in turn it is %+v, before %+v", p, before)
			}
		})
	}
}
