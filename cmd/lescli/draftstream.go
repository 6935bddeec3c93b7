package main

import (
	"fmt"
	"io"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
)

// draftStreaming is the joint to the engine of a drafter's experts, which has
// slots of its own: what a draft needs never pushes out what a step needs.
var draftStreaming streamer = &lesStreaming{}

// draftStream says how the experts of a drafter are streamed.
type draftStream struct {
	on          bool  // the model's own are streamed
	budgetBytes int64 // of slots; 0 where slots decides
	given       bool  // the budget was asked for
	slots       int   // of a layer above the floor
	lookahead   int
	lanes       int
	log         io.Writer
}

// draftStreamOf takes the settings of the model's own experts.
func draftStreamOf(les lesOptions, budget int64, log io.Writer) draftStream {
	s := draftStream{on: true, budgetBytes: budget, given: budget > 0, slots: les.slots, lookahead: les.lookahead, lanes: les.lanes, log: log}
	if s.given || s.slots != slotsFromBudget {
		return s
	}
	whole := les.budgetBytes
	if whole == 0 {
		whole, _ = memoryForProcess() // that it cannot be told is said for the model's own
	}
	s.budgetBytes = max(1, plan.DrafterShare(whole))
	return s
}

// load loads the drafter's model, with its experts left in the file if it has any
// and the model's own are streamed.
func (d *drafting) load(path string, params llama.ModelParams, stream draftStream) (err error) {
	if stream.on {
		if d.file, err = readModelFile(path); err != nil {
			return err
		}
	}
	if d.file == nil || len(d.file.layers) == 0 {
		d.file = nil
		d.model, err = llama.LoadModel(path, params)
		return err
	}
	if err = draftStreaming.Enable(); err != nil {
		return err
	}
	params.LoadMode = llama.LoadRead
	if d.model, err = llama.LoadModel(path, params); err == nil {
		err = draftStreaming.Loaded(d.file, false)
	}
	if err != nil {
		draftStreaming.Disable()
	}
	return err
}

// stream opens the engine of the drafter's experts, once it has a context, and
// waits until there is memory behind its slots: the plan of the model's own counts
// what the process holds.
func (d *drafting) stream(path string, lctx *llama.Context, stream draftStream) error {
	if d.file == nil {
		return nil
	}
	config := engineConfig{
		Slots: stream.slots, File: d.file, WorkBytes: d.file.WorkBytes(lctx.Ubatch()),
		Lookahead: stream.lookahead, Lanes: stream.lanes, Log: stream.log,
	}
	if stream.budgetBytes > 0 {
		var err error
		if config.Slots, err = d.file.shape().SlotsWithin(stream.budgetBytes); err != nil && stream.given {
			return fmt.Errorf("--draft-budget: %s: %w", path, err)
		}
	}
	if config.Slots == slotsAll {
		config.Slots = d.file.Experts
	}
	engine, err := draftStreaming.Open(lctx, config)
	if err != nil {
		draftStreaming.Disable()
		return fmt.Errorf("%s: %w", path, err)
	}
	d.engine = engine
	d.engine.WaitPopulated()
	return nil
}

// describe says in a line what of the drafter is streamed.
func (d *drafting) describe(out io.Writer) {
	if d.engine == nil {
		return
	}
	p := d.engine.Plan()
	fmt.Fprintf(out, "drafter: %d expert slots of its own for %d experts, %s\n", p.SlotCount, p.All, formatSize(p.Slots))
}
