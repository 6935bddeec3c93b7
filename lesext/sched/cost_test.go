package sched_test

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/sim"
)

// quietBoard stores words and wakes nobody, so that only the scheduler is
// measured.
type quietBoard struct {
	index expert.Index
	words []atomic.Uint32
}

func (b *quietBoard) Publish(layer, id int, word uint32) {
	b.words[b.index.Of(expert.Key{Layer: int32(layer), ID: int32(id)})].Store(word)
}

// wait waits until all the experts are ready.
func (b *quietBoard) wait(layer int, ids []int32) {
	for _, id := range ids {
		word := &b.words[b.index.Of(expert.Key{Layer: int32(layer), ID: id})]
		for word.Load()&1 == 0 {
			runtime.Gosched()
		}
	}
}

// quietReader reads nothing, at once.
type quietReader struct{}

func (quietReader) ReadExtent(expert.Extent, []byte) error { return nil }

// openQuiet opens a scheduler whose slots take no memory worth mentioning.
func openQuiet(t testing.TB, g expert.Geometry, slots, lookahead int, policy string) (*sched.Scheduler, *quietBoard) {
	t.Helper()
	index := expert.NewIndex(g)
	board := &quietBoard{index: index, words: make([]atomic.Uint32, index.Len())}
	s, err := sched.Open(sched.Config{
		Geometry: g, Slots: slots, Lanes: 2, Lookahead: lookahead, Policy: policyOf(t, policy, g, slots),
		Arena: alignedBytes(int64(slots) * g.SlotBytes), Reader: quietReader{}, Publisher: board,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, board
}

// routes returns random routed sets, some experts being far more popular.
func routes(experts, used, n int) [][]int32 {
	chance := rand.New(rand.NewPCG(7, 7))
	popular := rand.NewZipf(chance, 1.2, 8, uint64(experts-1))
	sets := make([][]int32, n)
	for i := range sets {
		for len(sets[i]) < used {
			if id := int32(popular.Uint64()); !slices.Contains(sets[i], id) {
				sets[i] = append(sets[i], id)
			}
		}
		slices.Sort(sets[i])
	}
	return sets
}

func TestNoAllocationInSteadyState(t *testing.T) {
	for _, policy := range sim.Policies() {
		g := contiguousGeometry(4, 32, 4)
		s, board := openQuiet(t, g, 24, 4, policy)
		sets := routes(32, 4, 97)
		turn := 0
		token := func() {
			for layer := range g.Layers {
				s.Predicted((layer+1)%len(g.Layers), sets[(turn+2)%len(sets)])
				s.Routed(layer, sets[turn%len(sets)], allSpans, 1)
				board.wait(layer, sets[turn%len(sets)])
				s.Released(layer, sets[turn%len(sets)])
				turn++
			}
		}
		for range 200 {
			token()
		}
		if n := testing.AllocsPerRun(500, token); n != 0 {
			t.Errorf("%s: %v allocations in a token", policy, n)
		}
	}
}

func TestCountersAddUp(t *testing.T) {
	g := splitGeometry(4, 32, 4)
	r := newRig(t, sched.Config{Geometry: g, Slots: 24, Lanes: 2, Lookahead: 4}).open(t)
	sets := routes(32, 4, 101)
	for turn := range 1000 {
		layer := turn % len(g.Layers)
		r.Predicted((layer+1)%len(g.Layers), sets[(turn+turn%3)%len(sets)])
		r.Routed(layer, sets[turn%len(sets)], allSpans, 1)
		if _, err := r.apply(layer, sets[turn%len(sets)], 7); err != nil {
			t.Fatal(err)
		}
		s := r.sums(t)
		if turn == 500 {
			r.ResetStats()
		} else if turn == 499 && (s.Lookups != 2000 || s.Useful == 0 || s.Wasted == 0 || s.Evictions == 0 || s.Rereads == 0) {
			t.Errorf("counts after 500 layers: %+v", s)
		}
	}
	var routed int64
	for _, l := range r.Stats().Layers {
		routed += l.Steps
	}
	if routed != 499 {
		t.Errorf("%d layers routed since the reset, want 499", routed)
	}
}

// BenchmarkCallbacks measures one layer's three callbacks on a large model. All
// lanes do is to hand reads back, which costs the callbacks the lock.
func BenchmarkCallbacks(b *testing.B) {
	const layers, experts, used = 40, 256, 8
	g := contiguousGeometry(layers, experts, used)
	for _, policy := range sim.Policies() {
		for _, slots := range []int{1000, 10000} {
			b.Run(policy+"/"+map[int]string{1000: "1000", 10000: "10000"}[slots], func(b *testing.B) {
				s, board := openQuiet(b, g, slots, used, policy)
				benchmarkCallbacks(b, s, board, routes(experts, used, 1009))
			})
		}
	}
}

func benchmarkCallbacks(b *testing.B, s *sched.Scheduler, board *quietBoard, sets [][]int32) {
	layers := board.index.Layers()
	var spent [3][]time.Duration // by callback; medians bear other load on the machine
	turn := 0
	token := func() {
		for layer := range layers {
			ids, next := sets[turn%len(sets)], sets[(turn+1)%len(sets)]
			t0 := time.Now()
			s.Predicted((layer+1)%layers, next)
			t1 := time.Now()
			s.Routed(layer, ids, allSpans, 1)
			t2 := time.Now()
			board.wait(layer, ids)
			t3 := time.Now()
			s.Released(layer, ids)
			t4 := time.Now()
			for i, d := range []time.Duration{t1.Sub(t0), t2.Sub(t1), t4.Sub(t3)} {
				spent[i] = append(spent[i], d)
			}
			turn++
		}
	}
	for range 20 {
		token()
	}
	spent = [3][]time.Duration{}
	s.ResetStats()
	for b.Loop() {
		token()
	}
	for i, name := range []string{"predicted", "routed", "released"} {
		slices.Sort(spent[i])
		b.ReportMetric(float64(spent[i][len(spent[i])/2]), name+"-median-ns")
		b.ReportMetric(float64(spent[i][len(spent[i])*99/100]), name+"-p99-ns")
	}
	stats := s.Stats()
	b.ReportMetric(100*float64(stats.Hits)/float64(stats.Lookups), "hit%")
	b.ReportMetric(0, "ns/op")
}
