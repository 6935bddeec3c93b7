package sim

import (
	"errors"
	"fmt"
	"slices"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/slot"
	"github.com/les-project/les/lesext/trace"
)

// Counts is what a pool of slots hit without any lookahead.
type Counts struct {
	Tokens  int
	Lookups int64
	Hits    int64
	Bytes   int64 // read for the misses
}

// HitRate is the share of lookups that found the expert in memory.
func (c Counts) HitRate() float64 {
	if c.Lookups == 0 {
		return 0
	}
	return float64(c.Hits) / float64(c.Lookups)
}

// Count replays the routed sets of a recording, the first skip tokens uncounted,
// through one pool for all layers.
func Count(rec *trace.Recording, policy string, slots, skip int) (Counts, error) {
	if err := checkPool(slots, skip); err != nil {
		return Counts{}, err
	}
	index := expert.NewIndex(geometryOf(rec.Header))
	chosen, err := NewPolicy(policy, slots, index, rec.Sets)
	if err != nil {
		return Counts{}, err
	}
	c := counter{rec: rec, table: slot.NewTable(index, slots, chosen), skip: skip}
	for _, s := range rec.Sets {
		if !s.Guessed {
			c.step(s)
		}
	}
	return c.counts, nil
}

// CountShares does the same with a pool of its own for each layer, an even share
// of the slots.
func CountShares(rec *trace.Recording, policy string, slots, skip int) (sum Counts, err error) {
	layers := len(rec.Layers)
	for i, layer := range rec.Layers {
		share := slots / layers
		if i < slots%layers {
			share++
		}
		one := &trace.Recording{Header: trace.Header{Layers: []trace.Layer{layer}}}
		for _, s := range rec.Sets {
			if s.Layer == i && !s.Guessed {
				s.Layer = 0
				one.Sets = append(one.Sets, s)
			}
		}
		c, err := Count(one, policy, share, skip)
		if err != nil {
			return sum, err
		}
		sum.Tokens = max(sum.Tokens, c.Tokens)
		sum.Lookups, sum.Hits, sum.Bytes = sum.Lookups+c.Lookups, sum.Hits+c.Hits, sum.Bytes+c.Bytes
	}
	return sum, nil
}

func checkPool(slots, skip int) error {
	var errs []error
	if slots < 1 || slots > slot.Max {
		errs = append(errs, fmt.Errorf("sim: a pool of %d slots, want 1 to %d", slots, slot.Max))
	}
	if skip < 0 {
		errs = append(errs, fmt.Errorf("sim: %d tokens to skip", skip))
	}
	return errors.Join(errs...)
}

// counter replays sets as the scheduler serves them: what is in memory is pinned
// before anything is evicted, and what finds no slot waits for one in order.
type counter struct {
	rec    *trace.Recording
	table  *slot.Table
	skip   int
	tokens int
	held   []expert.Key // pinned experts of the step
	counts Counts
}

func (c *counter) step(s trace.Set) {
	if s.Layer == 0 {
		c.tokens += s.Tokens
	}
	counted := c.tokens > c.skip
	if counted && s.Layer == 0 {
		c.counts.Tokens += s.Tokens
	}
	c.table.Step(s.Layer)
	c.held = c.held[:0]
	hits := c.pinHits(s)
	for _, id := range s.IDs {
		c.fetch(expert.Key{Layer: int32(s.Layer), ID: id})
	}
	slices.SortFunc(c.held, func(a, b expert.Key) int { return slices.Index(s.IDs, a.ID) - slices.Index(s.IDs, b.ID) })
	for len(c.held) > 0 {
		c.release()
	}
	if counted {
		misses := int64(len(s.IDs)) - hits
		c.counts.Lookups += int64(len(s.IDs))
		c.counts.Hits += hits
		c.counts.Bytes += misses * c.rec.Layers[s.Layer].Bytes()
	}
}

func (c *counter) pinHits(s trace.Set) (hits int64) {
	for _, id := range s.IDs {
		k := expert.Key{Layer: int32(s.Layer), ID: id}
		if at, resident := c.table.Lookup(k); resident {
			c.table.Pin(at)
			c.held = append(c.held, k)
			hits++
		}
		c.table.Use(k)
	}
	return hits
}

// fetch gives an expert a slot if it has none, that of one applied already if
// there is no other.
func (c *counter) fetch(k expert.Key) {
	if slices.Contains(c.held, k) {
		return
	}
	if !c.table.CanAcquire(slot.Demand) {
		c.release()
	}
	at, _, _ := c.table.Acquire(k, 1, slot.Demand)
	c.table.Landed(at, 1)
	c.table.Pin(at)
	c.held = append(c.held, k)
}

// release ends the step of the expert that is held for longest.
func (c *counter) release() {
	at, _ := c.table.Lookup(c.held[0])
	c.table.Unpin(at)
	c.held = c.held[1:]
}

// geometryOf stands for the geometry of a recorded model: as many reads of an
// expert, each of one block in a file of its own, so that slots are small.
func geometryOf(h trace.Header) expert.Geometry {
	g := expert.Geometry{Align: expert.Align}
	for _, l := range h.Layers {
		layer := expert.Layer{Block: l.Block, Experts: l.Experts, Used: l.Used}
		for i := range l.Reads {
			layer.Spans = append(layer.Spans, expert.Span{
				File: len(g.Files), Stride: expert.Align, Bytes: expert.Align, SlotOff: int64(i) * expert.Align,
			})
			g.Files = append(g.Files, fmt.Sprintf("layer %d read %d", l.Block, i))
		}
		g.Layers = append(g.Layers, layer)
		g.SlotBytes = max(g.SlotBytes, int64(len(l.Reads))*expert.Align)
	}
	return g
}
