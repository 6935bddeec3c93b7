package sim

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/slot"
	"github.com/les-project/les/lesext/trace"
)

// Names of the policies. PolicyLFRU is the engine's; followed by a colon and a
// half-life in steps, as in "lfru:8", it is computed exactly instead of in
// buckets. PolicyOptimum knows the future.
const (
	PolicyLRU     = "lru"
	PolicyLFU     = "lfu"
	PolicyLFRU    = "lfru"
	PolicyOptimum = "opt"
)

// Policies returns the names of all policies.
func Policies() []string { return []string{PolicyLRU, PolicyLFU, PolicyLFRU, PolicyOptimum} }

// halfLifeMax keeps the scores of long half-lives apart from rounding.
const halfLifeMax = 1 << 20

// NewPolicy returns the named policy for a pool of slots and the experts of all
// layers. Only the optimum looks at the sets, which must be those to come.
func NewPolicy(name string, slots int, index expert.Index, future []trace.Set) (slot.Policy, error) {
	kind, parameter, exact := strings.Cut(name, ":")
	switch {
	case exact && kind == PolicyLFRU:
		halfLife, err := strconv.ParseFloat(parameter, 64)
		if err != nil || !(halfLife > 0 && halfLife <= halfLifeMax) {
			return nil, fmt.Errorf("sim: policy %q: the half-life is not a number above 0 and at most %d", name, halfLifeMax)
		}
		return newDecay(slots, index, halfLife), nil
	case exact:
	case name == PolicyLFRU:
		return slot.NewLFRU(slots, index), nil
	case name == PolicyLRU:
		return newRanked(slots), nil
	case name == PolicyLFU:
		return newLFU(slots, index), nil
	case name == PolicyOptimum:
		return newOptimum(slots, index, future), nil
	}
	return nil, fmt.Errorf("sim: unknown policy %q, want one of %s", name, strings.Join(Policies(), ", "))
}

// ranked evicts the candidate of least worth, among equals the one that has been
// a candidate for longest. Without a worth that is LRU: it hits nothing at all
// when the pool is smaller than the experts one token uses.
type ranked struct {
	list  []int32 // candidates, in no order
	place []int32 // by slot: where it is on the list
	key   []int32 // by slot
	layer []int32 // by slot
	since []int64 // by slot
	clock int64
	worth func(slot int32, current int) float64
	use   func(layer, key int, step int64)
}

func newRanked(slots int) *ranked {
	return &ranked{
		place: make([]int32, slots), key: make([]int32, slots), layer: make([]int32, slots), since: make([]int64, slots),
		worth: func(int32, int) float64 { return 0 },
		use:   func(int, int, int64) {},
	}
}

// Use implements slot.Policy.
func (p *ranked) Use(layer, key int, step int64) { p.use(layer, key, step) }

// Add implements slot.Policy.
func (p *ranked) Add(slot, layer, key int) {
	p.clock++
	p.key[slot], p.layer[slot], p.since[slot] = int32(key), int32(layer), p.clock
	p.place[slot] = int32(len(p.list))
	p.list = append(p.list, int32(slot))
}

// Remove implements slot.Policy.
func (p *ranked) Remove(slot int) {
	last := p.list[len(p.list)-1]
	p.list[p.place[slot]] = last
	p.place[last] = p.place[slot]
	p.list = p.list[:len(p.list)-1]
}

// Victim implements slot.Policy.
func (p *ranked) Victim(current int) int {
	victim, least := int32(-1), math.Inf(1)
	for _, s := range p.list {
		worth := p.worth(s, current)
		if victim < 0 || worth < least || worth == least && p.since[s] < p.since[victim] {
			victim, least = s, worth
		}
	}
	return int(victim)
}

// newLFU returns the policy that evicts what was used least often since the
// beginning.
func newLFU(slots int, index expert.Index) *ranked {
	p, uses := newRanked(slots), make([]float64, index.Len())
	p.use = func(_, key int, _ int64) { uses[key]++ }
	p.worth = func(slot int32, _ int) float64 { return uses[p.key[slot]] }
	return p
}

// newDecay returns the engine's policy without its rounding: a use counts half
// after every half-life, and among equals the layer that has run last loses.
func newDecay(slots int, index expert.Index, halfLife float64) *ranked {
	p, score, present := newRanked(slots), make([]float64, index.Len()), make([]float64, index.Layers())
	for i := range score {
		score[i] = math.Inf(-1)
	}
	p.use = func(layer, key int, step int64) {
		now := float64(step) / halfLife
		larger, smaller := max(now, score[key]), min(now, score[key])
		score[key] = larger + math.Log2(1+math.Exp2(smaller-larger))
		present[layer] = now
	}
	layers := float64(index.Layers())
	p.worth = func(slot int32, current int) float64 {
		layer := int(p.layer[slot])
		ago := (current - layer + index.Layers()) % index.Layers()
		const tie = 1e-6 // below any difference of scores that matters
		return score[p.key[slot]] - present[layer] + tie*float64(ago)/layers
	}
	return p
}

// newOptimum returns the policy that evicts what is needed again latest (Belady).
func newOptimum(slots int, index expert.Index, future []trace.Set) *ranked {
	p, uses := newRanked(slots), make([][]int32, index.Len())
	for at, s := range future {
		for _, id := range s.IDs {
			if key := index.Of(expert.Key{Layer: int32(s.Layer), ID: id}); !s.Guessed {
				uses[key] = append(uses[key], int32(at))
			}
		}
	}
	p.use = func(_, key int, _ int64) { uses[key] = uses[key][min(1, len(uses[key])):] }
	p.worth = func(slot int32, _ int) float64 {
		if next := uses[p.key[slot]]; len(next) > 0 {
			return -float64(next[0])
		}
		return math.Inf(-1)
	}
	return p
}
