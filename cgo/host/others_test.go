package host

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/les-project/les/lesext/plan"
)

func TestResidentModelIsCountedOnceForThreadsThatMakeContexts(t *testing.T) {
	leader := &model{name: "first.gguf"}
	c := company{streamed: []*model{leader}}
	c.loaded(1, "models/second.gguf")
	var claims atomic.Int32
	var threads sync.WaitGroup
	for range 8 {
		threads.Go(func() {
			if r := c.claim(1, 100); r != nil {
				claims.Add(1)
			}
		})
	}
	threads.Wait()
	r := c.resident[1]
	if claims.Load() != 1 || r.leader != leader || r.counted != 100 || r.name != "second.gguf" {
		t.Errorf("%d claims, %+v", claims.Load(), r)
	}
	if c.disclaim(r); c.claim(1, 200) == nil || r.counted != 200 {
		t.Errorf("what found no room is not counted later: %+v", r)
	}
	if c.claim(2, 100) != nil {
		t.Error("a model that was not loaded is counted")
	}
}

func TestLeaderThatHasGoneIsForgotten(t *testing.T) {
	m := &model{name: "second.gguf", leader: &model{name: "first.gguf"}, counted: 100}
	m.log.hold()
	m.recounted(plan.Plan{Slots: 200})
	if lines := m.log.release(); m.leader != nil || len(lines) != 0 {
		t.Errorf("leader %+v, told %+v", m.leader, lines)
	}
}
