package main

import (
	"errors"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
)

// streamer is the joint between this program and the engine that streams
// experts.
type streamer interface {
	// Enable makes the next model load leave its experts to the engine, and
	// Disable undoes that unless Open has taken the model.
	Enable() error
	Disable()
	// Open plans and allocates, after the context is made and before the first
	// decode.
	Open(model *llama.Model, lctx *llama.Context, config engineConfig) (engine, error)
}

// engine is streaming at work on one context.
type engine interface {
	Plan() enginePlan
	Stats() engineStats
	ResetStats()
	// Err is the read error that failed the last decode, or nil.
	Err() error
	Close()
}

// engineConfig chooses how experts are streamed.
type engineConfig struct {
	BudgetBytes int64 // for the whole process; 0 when Slots decides
	Slots       int   // expert slots a layer, slotsFromBudget when the budget decides
	File        *modelFile
	WorkBytes   int64         // the CPU backend's work buffer
	Lookahead   int           // layers ahead whose experts are guessed and read
	Lanes       int           // reads in flight, 0 for the engine's choice
	ReadDelay   time.Duration // each read is held back by a random time up to this, in tests
}

const slotsFromBudget = -1

// enginePlan is where memory goes.
type enginePlan struct {
	plan.Plan
	Reason   string         // why the engine streams nothing; empty when it does
	Resident []expertTensor // tensors with a slice for each expert that are not streamed
}

// engineStats count since the last ResetStats.
type engineStats struct {
	Lookups, Hits, Joins, Misses int64
	Recall, Precision            float64
	BytesDemand, BytesPrefetch   int64
	Issued, Useful, Wasted       int64 // prefetches
	Late, Cancelled              int64 // prefetches
	StallNS, PredictNS, NodesNS  int64 // of MoE nodes
}

// errNoEngine is returned where streaming is asked of a program built without
// the engine.
var errNoEngine = errors.New("this build has no streaming engine")

// streaming is the engine of this build.
var streaming streamer = noStreaming{}

// noStreaming is the engine that is not there.
type noStreaming struct{}

func (noStreaming) Enable() error { return nil }
func (noStreaming) Disable()      {}

func (noStreaming) Open(*llama.Model, *llama.Context, engineConfig) (engine, error) {
	return nil, errNoEngine
}

// available says whether this build can stream.
func streamingAvailable() bool {
	_, missing := streaming.(noStreaming)
	return !missing
}

// plus adds the counters of two phases; recall and precision are weighted by
// lookups.
func (s engineStats) plus(t engineStats) engineStats {
	sum := engineStats{
		Lookups: s.Lookups + t.Lookups, Hits: s.Hits + t.Hits, Joins: s.Joins + t.Joins, Misses: s.Misses + t.Misses,
		BytesDemand: s.BytesDemand + t.BytesDemand, BytesPrefetch: s.BytesPrefetch + t.BytesPrefetch,
		StallNS: s.StallNS + t.StallNS, PredictNS: s.PredictNS + t.PredictNS, NodesNS: s.NodesNS + t.NodesNS,
		Issued: s.Issued + t.Issued, Useful: s.Useful + t.Useful, Wasted: s.Wasted + t.Wasted,
		Late: s.Late + t.Late, Cancelled: s.Cancelled + t.Cancelled,
	}
	if sum.Lookups > 0 {
		own, other := float64(s.Lookups)/float64(sum.Lookups), float64(t.Lookups)/float64(sum.Lookups)
		sum.Recall = own*s.Recall + other*t.Recall
		sum.Precision = own*s.Precision + other*t.Precision
	}
	return sum
}
