package sched

import (
	"github.com/les-project/les/lesext/predict"
)

// Stats counts what a scheduler did since it was opened or reset. These hold at
// any time:
//
//	Lookups        = Hits + Joins + Misses
//	PrefetchIssued = Useful + Wasted + Pending
//	PrefetchQueued = PrefetchIssued + Promoted + Cancelled + guesses still queued
//
// A read here is one read of a run: spans of one expert that lie together.
type Stats struct {
	LookupStats // of all layers

	Cut              int64 // guesses that were missing and came true too rarely for a prefetch
	PrefetchQueued   int64 // experts for which prefetches were queued
	Promoted         int64 // of these, routed before a read had started
	Cancelled        int64 // of these, not routed and dropped before a read had started
	PrefetchIssued   int64 // of these, a read has started
	Useful           int64 // of the issued, routed by their layer
	Late             int64 // of the useful, not all in memory when routed
	Wasted           int64 // of the issued, not routed by their layer, failed, or evicted
	Pending          int64 // of the issued, their layer has not routed yet
	PrefetchFailures int64 // reads for guesses, and warm ones, that failed and were dropped

	DemandReads   int64 // reads started for a demand, retries included
	PrefetchReads int64 // reads started for a guess
	DemandBytes   int64 // bytes of the demand reads, without padding
	PrefetchBytes int64 // bytes of the prefetch reads, without padding
	Warmed        int64 // experts that Warm gave an empty slot, or whose dropped guess it finished
	WarmUseful    int64 // of these, routed while they still had it
	WarmReads     int64 // reads started by Warm
	WarmBytes     int64 // bytes of these, without padding

	Rereads  int64 // experts given a slot that had one before
	Retries  int64 // demand reads repeated after a failure
	Failures int64 // demand reads failed for good

	Evictions int64 // experts that lost their slot to another
	Retired   int64 // experts that lost their slot because there are fewer
	Starved   int64 // routed experts for which there was no slot at once

	// CutPercent is how often guesses must come true to get a prefetch, as chosen
	// last; above 100 there are none. A trial that is running does not show.
	CutPercent int

	Layers []LayerStats
}

// LookupStats counts the routed experts by how a layer's step found them. A layer
// whose projections are routed one by one is counted with its first one.
type LookupStats struct {
	Lookups int64 // experts routed
	Hits    int64 // all spans needed were in memory
	Joins   int64 // what was missing was being read, or awaited, already
	Misses  int64 // a demand read had to be queued
}

// LayerStats counts one layer.
type LayerStats struct {
	predict.LayerStats // recall, precision and overlap
	LookupStats
}

// Plus adds the counts of two runs of one layer, or of two layers.
func (s LayerStats) Plus(t LayerStats) LayerStats {
	return LayerStats{LayerStats: s.LayerStats.Plus(t.LayerStats), LookupStats: s.LookupStats.plus(t.LookupStats)}
}

func (s LookupStats) plus(t LookupStats) LookupStats {
	return LookupStats{
		Lookups: s.Lookups + t.Lookups, Hits: s.Hits + t.Hits, Joins: s.Joins + t.Joins, Misses: s.Misses + t.Misses,
	}
}

// layerCounts counts the lookups of one layer, once for each step.
type layerCounts struct {
	LookupStats
	routed uint32 // spans routed so far in the step
}

// begins notes a routing of spans and reports whether it starts a new step of
// the layer: a step routes no span twice.
func (c *layerCounts) begins(spans uint32) bool {
	first := c.routed == 0 || c.routed&spans != 0
	if first {
		c.routed = 0
	}
	c.routed |= spans
	return first
}

// lookup is what was found of a routed expert.
type lookup uint8

const (
	miss lookup = iota // it has to be read
	join               // a read of it was under way
	hit                // it was in memory
)

func (c *layerCounts) count(found lookup) {
	c.Lookups++
	switch found {
	case hit:
		c.Hits++
	case join:
		c.Joins++
	default:
		c.Misses++
	}
}

// Stats returns the counts. It allocates and is not meant for every token.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.mu.stats
	stats.Pending = int64(s.mu.table.Unused())
	stats.CutPercent = 100 * s.cutLocked() / predict.Whole
	for i, tracked := range s.mu.tracker.AppendStats(make([]predict.LayerStats, 0, s.index.Layers())) {
		layer := LayerStats{LayerStats: tracked, LookupStats: s.mu.counts[i].LookupStats}
		stats.LookupStats = stats.LookupStats.plus(layer.LookupStats)
		stats.Layers = append(stats.Layers, layer)
	}
	return stats
}

// ResetStats sets all counts to zero but those of warming, which happens once. Guesses that are still open are counted
// as if they were made afterwards, so that the sums go on to hold.
func (s *Scheduler) ResetStats() {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.mu
	var queued int64
	for i := range m.interest {
		if m.interest[i].guess == guessQueued {
			queued++
		}
	}
	pending := int64(m.table.Unused())
	m.stats = Stats{
		PrefetchIssued: pending, PrefetchQueued: pending + queued,
		Warmed: m.stats.Warmed, WarmUseful: m.stats.WarmUseful, WarmReads: m.stats.WarmReads, WarmBytes: m.stats.WarmBytes,
	}
	m.tracker.Reset()
	for i := range m.counts {
		m.counts[i].LookupStats = LookupStats{}
	}
}
