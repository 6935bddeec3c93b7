package slot

import (
	"fmt"

	"github.com/les-project/les/lesext/expert"
)

// Policy chooses victims. It sees only candidates: slots whose expert may be
// evicted now, neither pinned, nor being read, nor protected by a guess. Use
// counts outlive residency, so experts are given by their layer and their number
// over all layers. Time is the step given to Use; a policy has no clock and no
// lock.
type Policy interface {
	// Use counts one use of an expert in a step of its layer. It is called while
	// the expert is no candidate.
	Use(layer, key int, step int64)
	// Add makes a slot that holds the expert a candidate.
	Add(slot, layer, key int)
	// Remove takes a slot out of the candidates.
	Remove(slot int)
	// Victim returns the candidate to evict next, or -1, while the given layer
	// is the last that has routed. It stays a candidate.
	Victim(layer int) int
}

// Names of the policies.
const (
	PolicyLRU  = "lru"
	PolicyLFRU = "lfru"
)

// NewPolicy returns the named policy for a pool of slots and the experts of
// all layers; the empty name is LFRU.
func NewPolicy(name string, slots int, index expert.Index) (Policy, error) {
	switch name {
	case PolicyLRU:
		return newLRU(slots), nil
	case PolicyLFRU, "":
		return newLFRU(slots, index.Layers(), index.Len()), nil
	}
	return nil, fmt.Errorf("slot: unknown policy %q, want %q or %q", name, PolicyLFRU, PolicyLRU)
}

// lru evicts the slot that was released longest ago. It hits nothing at all
// when the pool is smaller than the experts one token uses.
type lru struct{ lists }

func newLRU(slots int) *lru { return &lru{newLists(slots, 1)} }

func (p *lru) Use(_, _ int, _ int64) {}
func (p *lru) Add(slot, _, _ int)    { p.pushBack(0, int32(slot)) }
func (p *lru) Remove(slot int)       { p.remove(int32(slot)) }
func (p *lru) Victim(int) int        { return int(p.first(0)) }
