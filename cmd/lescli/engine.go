package main

import (
	"io"
	"slices"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/trace"
)

// streamer is the joint between this program and the engine that streams
// experts.
type streamer interface {
	// Enable makes the next model load leave its experts to the engine, and
	// Disable undoes that unless Open has taken the model.
	Enable() error
	Disable()
	// Loaded ends the load, before a context is made: graphs have their streamed
	// form from then on, with the products of a layer apart where they are to be
	// observed.
	Loaded(file *modelFile, apart bool) error
	// Open plans and allocates, after the context is made and before the first
	// decode.
	Open(lctx *llama.Context, config engineConfig) (engine, error)
}

// engine is streaming at work on one context.
type engine interface {
	Plan() enginePlan
	// SetSlots changes the number of slots a layer above the floor; steps may run.
	SetSlots(perLayer int) error
	Stats() engineStats
	ResetStats()
	// WaitPopulated waits until there is memory behind all slots.
	WaitPopulated()
	// Geometry says where the streamed experts lie.
	Geometry() expert.Geometry
	// Warm reads experts ahead, into empty slots only; Hot lists those used most.
	Warm(keys []expert.Key)
	Hot(n int) []sched.Use
	Idle() bool // nothing is left to read
	// Err takes the error that failed the last decode, or returns nil.
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
	WholeLayers bool          // compute a layer only when all its experts are in memory
	ReadDelay   time.Duration // each read is held back by a random time up to this, in tests
	Routes      *trace.Routes // buffers what is routed and guessed; nil for nothing
	Log         io.Writer     // receives single lines, such as the fall back to buffered reads
}

const slotsFromBudget = -1

// enginePlan is where memory goes.
type enginePlan struct {
	plan.Plan
	ExpertBytes int64          // the routed bytes of one expert, mean of all
	Reason      string         // why the engine streams nothing; empty when it does
	Resident    []expertTensor // tensors with a slice for each expert that are not streamed
}

// engineStats count since the last ResetStats.
type engineStats struct {
	Layers                      []layerStats
	BytesDemand, BytesPrefetch  int64
	Issued, Useful, Wasted      int64 // prefetches
	Late, Cancelled             int64 // prefetches
	Retries                     int64 // failed reads that were repeated
	CutPercent                  int   // how often guesses must come true to be read ahead; above 100 none are
	Warmed, WarmUseful          int64 // experts read ahead from a warm file, those of them used: since the start
	WarmBytes                   int64 // read for them
	StallNS, PredictNS, NodesNS int64 // of MoE nodes
	Nodes                       int64 // MoE nodes computed
	CallbackNS, Callbacks       int64 // calls into the scheduler
}

// layerStats count one layer.
type layerStats struct {
	Block int // the layer's number in the model
	sched.LayerStats
}

// total sums all layers.
func (s engineStats) total() (sum sched.LayerStats) {
	for _, layer := range s.Layers {
		sum = sum.Plus(layer.LayerStats)
	}
	return sum
}

// streaming is the engine of this program.
var streaming streamer = &lesStreaming{}

// plus adds the counters of two phases.
func (s engineStats) plus(t engineStats) engineStats {
	return engineStats{
		Layers:      plusLayers(s.Layers, t.Layers),
		BytesDemand: s.BytesDemand + t.BytesDemand, BytesPrefetch: s.BytesPrefetch + t.BytesPrefetch,
		CallbackNS: s.CallbackNS + t.CallbackNS, Callbacks: s.Callbacks + t.Callbacks,
		Nodes: s.Nodes + t.Nodes, StallNS: s.StallNS + t.StallNS, PredictNS: s.PredictNS + t.PredictNS, NodesNS: s.NodesNS + t.NodesNS,
		Issued: s.Issued + t.Issued, Useful: s.Useful + t.Useful, Wasted: s.Wasted + t.Wasted,
		Late: s.Late + t.Late, Cancelled: s.Cancelled + t.Cancelled, Retries: s.Retries + t.Retries, CutPercent: t.CutPercent,
		Warmed: max(s.Warmed, t.Warmed), WarmUseful: max(s.WarmUseful, t.WarmUseful), WarmBytes: max(s.WarmBytes, t.WarmBytes),
	}
}

// plusLayers adds layer by layer; either list may be empty.
func plusLayers(a, b []layerStats) []layerStats {
	if len(a) == 0 {
		return b
	}
	sum := slices.Clone(a)
	for i, layer := range b {
		sum[i].LayerStats = sum[i].Plus(layer.LayerStats)
	}
	return sum
}
