package main

import (
	"errors"
	"fmt"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/sched"
)

// lesStreaming puts package les behind this program's joint.
type lesStreaming struct {
	streamed *les.Streamed                   // from Enable until Open takes it
	nothing  error                           // why the load took no experts; nil if it did
	wrap     func(readq.Reader) readq.Reader // puts faults into reads, in tests; nil otherwise
}

func (l *lesStreaming) Enable() error {
	streamed, err := les.Prepare()
	l.streamed, l.nothing = streamed, nil
	return err
}

func (l *lesStreaming) Loaded(file *modelFile, apart bool) error {
	err := l.streamed.Seal(file.paths, file.Used)
	if errors.Is(err, les.ErrNothingStreamed) {
		l.nothing, err = err, nil
	}
	if apart {
		l.streamed.KeepApart()
	}
	return err
}

// Disable gives up a model that no engine was opened for.
func (l *lesStreaming) Disable() {
	if l.streamed != nil {
		l.streamed.Close()
		l.streamed = nil
	}
}

func (l *lesStreaming) Open(lctx *llama.Context, config engineConfig) (engine, error) {
	if l.nothing != nil {
		return residentEngine{reason: l.nothing.Error()}, nil
	}
	memory := lctx.Memory()
	logf := func(format string, args ...any) { fmt.Fprintf(config.Log, format+"\n", args...) }
	opened, err := l.streamed.Open(les.Config{
		Usage:         plan.Usage{Dense: memory.ModelBytes, KV: memory.ContextBytes, Compute: memory.ComputeBytes, Work: config.WorkBytes},
		Budget:        config.BudgetBytes,
		SlotsPerLayer: config.Slots,
		Lookahead:     config.Lookahead > 0,
		Lanes:         config.Lanes,
		WholeLayers:   config.WholeLayers,
		ReadDelay:     config.ReadDelay,
		Reader:        l.wrap,
		Routes:        config.Routes,
		Logf:          logf,
	})
	if err != nil {
		return nil, err
	}
	e := &lesEngine{engine: opened, streamed: l.streamed, resident: notStreamed(config.File, l.streamed.Geometry()), logf: logf}
	l.streamed = nil
	return e, nil
}

// lesEngine is an open engine.
type lesEngine struct {
	engine   *les.Engine
	streamed *les.Streamed
	resident []expertTensor
	logf     func(format string, args ...any)
}

// notStreamed are the expert tensors whose bytes no expert of the geometry has.
func notStreamed(file *modelFile, g expert.Geometry) (rest []expertTensor) {
	holds := func(tensor expertTensor) bool {
		for _, layer := range g.Layers {
			for _, span := range layer.Spans {
				if span.File == tensor.part && tensor.off >= span.Off && tensor.off < span.Off+span.Bytes {
					return true
				}
			}
		}
		return false
	}
	for _, tensor := range file.sliced {
		if !holds(tensor) {
			rest = append(rest, tensor)
		}
	}
	return rest
}

func (e *lesEngine) Plan() enginePlan {
	return enginePlan{Plan: e.engine.Plan(), Resident: e.resident, ExpertBytes: meanExpertBytes(e.streamed.Geometry())}
}

// meanExpertBytes is what an expert has in the file, without padding.
func meanExpertBytes(g expert.Geometry) int64 {
	var bytes, experts int64
	for _, layer := range g.Layers {
		experts += int64(layer.Experts)
		for _, span := range layer.Spans {
			bytes += int64(layer.Experts) * span.Bytes
		}
	}
	return bytes / max(1, experts)
}

func (e *lesEngine) Stats() engineStats {
	s := e.engine.Stats()
	stats := engineStats{
		BytesDemand: s.DemandBytes, BytesPrefetch: s.PrefetchBytes,
		StallNS: int64(s.Stall), PredictNS: int64(s.Predict), NodesNS: int64(s.Nodes), Nodes: s.NodesComputed,
		CallbackNS: int64(s.Callback), Callbacks: s.Callbacks,
		Issued: s.PrefetchIssued, Useful: s.Useful, Wasted: s.Wasted, Late: s.Late, Cancelled: s.Cancelled, Retries: s.Retries, CutPercent: s.CutPercent,
		Warmed: s.Warmed, WarmUseful: s.WarmUseful, WarmBytes: s.WarmBytes,
	}
	for i, layer := range e.streamed.Geometry().Layers {
		stats.Layers = append(stats.Layers, layerStats{Block: layer.Block, LayerStats: s.Layers[i]})
	}
	return stats
}

func (e *lesEngine) SetSlots(perLayer int) error {
	_, err := e.engine.SetSlots(perLayer)
	return err
}

func (e *lesEngine) ResetStats()               { e.engine.ResetStats() }
func (e *lesEngine) WaitPopulated()            { e.engine.WaitPopulated() }
func (e *lesEngine) Geometry() expert.Geometry { return e.streamed.Geometry() }
func (e *lesEngine) Warm(keys []expert.Key)    { e.engine.Warm(keys) }
func (e *lesEngine) Idle() bool                { return e.engine.Idle() }
func (e *lesEngine) Hot(n int) []sched.Use     { return e.engine.Hot(n) }
func (e *lesEngine) Err() error                { return e.engine.Err() }

func (e *lesEngine) Close() {
	if err := e.engine.Close(); err != nil {
		e.logf("%v", err)
	}
	e.streamed.Close()
}

// residentEngine stands for a model of which nothing is streamed after all.
type residentEngine struct{ reason string }

func (r residentEngine) Plan() enginePlan          { return enginePlan{Reason: r.reason} }
func (r residentEngine) SetSlots(int) error        { return nil }
func (r residentEngine) Stats() engineStats        { return engineStats{} }
func (r residentEngine) ResetStats()               {}
func (r residentEngine) WaitPopulated()            {}
func (r residentEngine) Geometry() expert.Geometry { return expert.Geometry{} }
func (r residentEngine) Warm([]expert.Key)         {}
func (r residentEngine) Idle() bool                { return true }
func (r residentEngine) Hot(int) []sched.Use       { return nil }
func (r residentEngine) Err() error                { return nil }
func (r residentEngine) Close()                    {}
