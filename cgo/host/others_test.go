package host

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
)

// memberOf is the youngest member of the process, of the model that was just loaded.
func memberOf(t *testing.T, before map[*member]bool) *member {
	t.Helper()
	others.mu.Lock()
	defer others.mu.Unlock()
	for r := range others.members {
		if !before[r] {
			return r
		}
	}
	t.Fatal("the model that was loaded is no member")
	return nil
}

func membersNow() map[*member]bool {
	others.mu.Lock()
	defer others.mu.Unlock()
	now := map[*member]bool{}
	for r := range others.members {
		now[r] = true
	}
	return now
}

func near(a, b int64) bool { return max(a-b, b-a) <= b/50 }

func TestOfFirstContextsAtOnceOneLeadsAndCountsTheOthers(t *testing.T) {
	const budget = 2 << 30
	for range 10 {
		var models [3]*llama.Model
		var contexts [3]*llama.Context
		for i := range models {
			models[i] = load(t, map[string]string{"budget": "2G"})
		}
		var threads sync.WaitGroup
		begin := make(chan struct{})
		for i := range models {
			threads.Go(func() {
				<-begin
				var err error
				if contexts[i], err = llama.NewContext(models[i], llama.ContextParams{Tokens: 64}); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		threads.Wait()
		leader, beside := others.leader(), int64(0)
		for r := range membersNow() {
			if r == leader.member {
				continue
			}
			if counts, counted := others.claimed(r); counts != leader {
				t.Errorf("a follower is counted by %+v, with %d bytes", counts, counted)
			} else {
				beside += counted
			}
		}
		if p := leader.planNow(t); p.Budget != budget || p.Total > budget || p.Process < beside {
			t.Errorf("beside %d bytes of others the plan is %+v", beside, p)
		}
		for i := range models {
			if contexts[i] != nil {
				contexts[i].Close()
			}
			models[i].Close()
		}
	}
}

// A model that is there when the leader's plan is made has its weights in what the
// process holds.
func TestModelLoadedBeforeItsLeaderIsCountedOnce(t *testing.T) {
	for _, mode := range []string{"on", "off"} {
		t.Run(mode, func(t *testing.T) {
			before := membersNow()
			model := load(t, map[string]string{"mode": mode})
			r := memberOf(t, before)
			leader := lead(t)
			first := leader.planNow(t)
			if first.Process < r.weights {
				t.Errorf("the process holds %d, the other model's weights are %d", first.Process, r.weights)
			}
			lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: 64})
			if err != nil {
				t.Fatal(err)
			}
			counts, counted := others.claimed(r)
			if p := leader.planNow(t); counts != leader || p.Process != first.Process+counted-r.weights {
				t.Errorf("%d bytes are counted, %d of them weights: %d, before %d", counted, r.weights, p.Process, first.Process)
			}
			if weights := lctx.Memory().ModelBytes; !near(r.weights, weights) {
				t.Errorf("weights of %d bytes, llama.cpp says %d", r.weights, weights)
			}
			lctx.Close()
			if model.Close(); leader.planNow(t).Process != first.Process-r.weights {
				t.Errorf("afterwards %d, before %d with weights of %d", leader.planNow(t).Process, first.Process, r.weights)
			}
		})
	}
}

func TestModelWithoutContextThatGoesIsTakenOutOfThePlan(t *testing.T) {
	before := membersNow()
	model := load(t, map[string]string{"mode": "on"})
	r := memberOf(t, before)
	leader := lead(t)
	first := leader.planNow(t)
	if model.Close(); leader.planNow(t).Process != first.Process-r.weights {
		t.Errorf("%d, before %d with weights of %d", leader.planNow(t).Process, first.Process, r.weights)
	}
}

func TestWhatFindsNoRoomIsCountedLater(t *testing.T) {
	leader, r := &model{name: "first.gguf"}, &member{weights: 30}
	var c company
	if more := c.claim(leader, r, 100); more != 100 || !r.whole {
		t.Errorf("%d more, %+v", more, r)
	}
	if c.disclaim(r, 100); r.leader != nil || r.whole {
		t.Errorf("%+v", r)
	}
	c.members = map[*member]bool{r: true, {weights: 12}: true}
	if weights := c.lead(leader); weights != 42 || r.counted != 30 || r.whole {
		t.Errorf("weights %d, %+v", weights, r)
	}
	if more := c.claim(leader, r, 100); more != 70 {
		t.Errorf("%d more", more)
	}
	if c.disclaim(r, 70); r.leader != leader || r.counted != 30 {
		t.Errorf("%+v", r)
	}
}

// A leader may go while another model gets its first context.
func TestModelWhoseLeaderHasGoneAsksTheNextOne(t *testing.T) {
	leader := lead(t)
	gone := &model{name: "gone.gguf", asked: plan.Plan{Budget: 1 << 20}}
	config := les.Config{SlotsPerLayer: -1, Budget: 1 << 30}
	m := &model{streamed: leader.streamed, member: &member{}}
	if _, err := m.followThis(gone, &config); !errors.Is(err, errNoContext) {
		t.Errorf("error is %v", err)
	}
	config = les.Config{SlotsPerLayer: -1, Budget: 1 << 30}
	undo, err := m.follow(&config)
	if err != nil || m.member.leader != leader || config.SlotsPerLayer < 0 {
		t.Fatalf("error %v, %+v, %+v", err, m.member, config)
	}
	if undo(); m.member.leader != nil || m.member.counted != 0 {
		t.Errorf("%+v", m.member)
	}
}

func TestLeaderThatHasGoneIsForgotten(t *testing.T) {
	m := &model{name: "second.gguf", member: &member{leader: &model{name: "first.gguf"}, counted: 100, whole: true}}
	m.log.hold()
	m.recounted(plan.Plan{Slots: 200})
	if lines := m.log.release(); m.member.leader != nil || len(lines) != 0 {
		t.Errorf("leader %+v, told %+v", m.member.leader, lines)
	}
}

// A change of size has the lock of its model while it waits for layers in progress.
func TestFiguresDoNotWaitForAChangeOfSize(t *testing.T) {
	leader := lead(t)
	leader.mu.Lock()
	defer leader.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		_, err := leader.plan()
		_, statsErr := leader.stats()
		done <- errors.Join(err, statsErr)
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("plan and counters wait for a lock that a change of size holds")
	}
}
