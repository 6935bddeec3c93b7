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

// counted is a member whose first context of 10 bytes a plan has.
func counted(c *company) (leader *model, r *member) {
	leader, r = &model{name: "first.gguf"}, &member{name: "second.gguf", weights: 100}
	c.members = map[*member]bool{r: true}
	c.claim(leader, r, 110)
	c.planned(r, 10)
	return leader, r
}

func (c *company) takeMore(t *testing.T, id uintptr, s seat, want int64) {
	t.Helper()
	if _, more := c.take(id, s); more != want {
		t.Errorf("a context of %d bytes counts %d more, want %d: %+v", s.bytes, more, want, s.member)
	}
}

func (c *company) vacateLess(t *testing.T, id uintptr, want int64) {
	t.Helper()
	if r, _, less := c.vacate(c.leaves(id)); less != want {
		t.Errorf("the end of a context counts %d less, want %d: %+v", less, want, r)
	}
}

func TestFurtherContextThatIsToldOfFirstIsCounted(t *testing.T) {
	var c company
	_, r := counted(&c)
	c.takeMore(t, 2, seat{r, 30}, 20)
	c.takeMore(t, 1, seat{r, 10}, 10)
	c.vacateLess(t, 1, 10)
	c.vacateLess(t, 2, 20)
	if r.extra != 0 || r.held != 0 || r.counted != 110 {
		t.Errorf("%+v", r)
	}
}

func TestContextThatFoundNoRoomIsNotTakenOutOfThePlan(t *testing.T) {
	var c company
	leader, r := counted(&c)
	c.takeMore(t, 1, seat{r, 10}, 0)
	c.takeMore(t, 2, seat{r, 20}, 20)
	c.takeMore(t, 3, seat{r, 30}, 30)
	c.untake(r, leader, 30)
	c.vacateLess(t, 2, 0) // the other one has its room
	c.vacateLess(t, 3, 20)
	if r.extra != 0 || r.counted != 110 {
		t.Errorf("%+v", r)
	}
}

func TestContextsThatOutliveTheirModelAreNobodys(t *testing.T) {
	var c company
	_, r := counted(&c)
	c.takeMore(t, 1, seat{r, 40}, 30)
	c.takeMore(t, 2, seat{r, 50}, 50)
	number := c.leaves(1)
	c.leave(r, &journal{})
	if _, leader, less := c.vacate(number); leader != nil || less != 0 {
		t.Errorf("%d bytes of a model that is gone are counted less", less)
	}
	if c.leaves(2) != 0 || len(c.seats.taken)+len(c.seats.leaving) != 0 {
		t.Errorf("seats of a model that is gone: %+v", c.seats)
	}
}

func TestContextsThatAreThereBeforeALeaderAreInItsPlan(t *testing.T) {
	var c company
	leader, r := &model{name: "second.gguf"}, &member{name: "first.gguf", weights: 100}
	c.members = map[*member]bool{r: true}
	c.takeMore(t, 1, seat{r, 10}, 0)
	c.takeMore(t, 2, seat{r, 20}, 0)
	c.lead(leader)
	c.vacateLess(t, 1, 0)
	c.claim(leader, r, 140)
	c.planned(r, 40)
	c.takeMore(t, 3, seat{r, 40}, 0)
	c.takeMore(t, 4, seat{r, 30}, 20)
	c.vacateLess(t, 2, 20)
	if r.extra != 0 || r.counted != 140 {
		t.Errorf("%+v", r)
	}
}

func TestFollowerCountsItsContextsWhenItsLeaderHasGone(t *testing.T) {
	first := load(t, map[string]string{"budget": "2G"})
	lctx, _ := contextOf(t, first, 64)
	follower := load(t, map[string]string{"mode": "on"})
	contextOf(t, follower, 64)
	lctx.Close()
	first.Close()
	leader := others.leader()
	before := leader.planNow(t)
	further, more := contextOf(t, follower, 512)
	if p := leader.planNow(t); leader.member.leader != nil || p.Process < before.Process+more {
		t.Errorf("a further context takes %d, the plan before %+v, now %+v", more, before, p)
	}
	further.Close()
	if p := leader.planNow(t); p.Process != before.Process {
		t.Errorf("afterwards %+v, before %+v", p, before)
	}
}
