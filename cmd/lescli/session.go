package main

import (
	"context"
	"fmt"
	"io"

	"github.com/les-project/les/cgo/host"
	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/trace"
)

// sessionOptions say which model is opened and how.
type sessionOptions struct {
	path     string
	adapter  string // LoRA file, empty for none
	context  llama.ContextParams
	origin   contextOrigin // why the context is that long
	les      lesOptions
	draft    draftOptions
	resident llama.ModelParams // how to load when nothing is streamed
	warm     string            // file with what was hot before, empty for none
	extra    int64             // memory that its owner takes beside, of the budget
	record   bool              // buffer routes, for their owner to drain after each step
	line     *progressLine
	log      io.Writer // for single lines of the engine
}

// session is a loaded model with a context, streamed or not.
type session struct {
	model    *llama.Model
	lctx     *llama.Context
	engine   engine        // nil when everything is resident
	drafting *drafting     // nil when nothing is drafted
	warm     *host.Warmth  // nil without a warm file
	routes   *trace.Routes // nil when nothing is recorded
	reason   string        // why it is not streamed
	because  string        // why it is, when nobody asked for it
	tokens   int           // of the context, before llama.cpp rounds it up
}

// openSession loads the model and, if it is to be streamed, opens the engine.
// A model without experts runs whatever was asked, and s.reason says so.
func openSession(ctx context.Context, opts sessionOptions) (_ *session, err error) {
	if err = opts.check(); err != nil {
		return nil, err
	}
	file, err := readModelFile(opts.path)
	if err != nil {
		return nil, err
	}
	seqs := max(1, opts.context.Seqs)
	opts.context.Tokens = seqs * opts.origin.length(opts.context.Tokens/seqs, file.Trained, opts.log)
	s := &session{tokens: opts.context.Tokens}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	s.reason = whyResident(file, opts.les)
	params := opts.resident
	if s.reason == "" {
		params.LoadMode, params.Repack = llama.LoadRead, false
		if err = streaming.Enable(); err != nil {
			return nil, err
		}
		defer streaming.Disable()
	} else if opts.les.mode == lesOn && len(file.layers) > 0 {
		return nil, fmt.Errorf("%s: cannot stream: %s", opts.path, s.reason)
	}
	params.NextN = opts.draft.fromTarget()
	params.Progress = func(progress float32) bool {
		opts.line.show("loading %s: %.0f %%", opts.path, 100*progress)
		return ctx.Err() == nil
	}
	s.model, err = llama.LoadModel(opts.path, params)
	opts.line.clear()
	if err != nil {
		return nil, err
	}
	if s.model.HasEncoder() || !s.model.HasDecoder() {
		return nil, fmt.Errorf("%s: architecture %s does not generate text from a prompt alone", opts.path, file.Arch)
	}
	if s.reason == "" {
		if err = streaming.Loaded(file, opts.context.Observe != nil); err != nil {
			return nil, fmt.Errorf("%s: %w", opts.path, err)
		}
	}
	if s.lctx, err = llama.NewContext(s.model, opts.draft.widen(opts.context)); err != nil {
		return nil, err
	}
	if opts.adapter != "" {
		if err = s.lctx.ApplyAdapter(s.model, opts.adapter); err != nil {
			return nil, err
		}
	}
	if opts.draft.kind != "" {
		if s.reason == "" {
			opts.draft.stream = draftStreamOf(opts.les, opts.draft.budgetBytes, opts.log)
		}
		// Before the engine, whose plan counts what the process holds.
		if s.drafting, err = openDrafting(opts.draft, file, s.lctx); err != nil {
			return nil, err
		}
	}
	if s.reason == "" {
		err = s.openEngine(file, opts)
	}
	return s, err
}

// check refuses what can be refused before any file of the model is read.
func (o *sessionOptions) check() error {
	if o.context.Tokens > contextTokensMax {
		return fmt.Errorf("%s: a context of %d tokens is more than %d", o.path, o.context.Tokens, contextTokensMax)
	}
	if o.adapter == "" {
		return nil
	}
	adapter, err := llama.OpenFile(o.adapter)
	if err != nil {
		return fmt.Errorf("--lora: %w", err)
	}
	adapter.Close()
	return nil
}

// whyResident is the reason for not streaming, empty when experts are to be
// streamed.
func whyResident(file *modelFile, les lesOptions) string {
	switch {
	case les.mode == lesOff:
		return "switched off"
	case len(file.layers) == 0:
		return fmt.Sprintf("architecture %s has no routed experts in this file", file.Arch)
	}
	return ""
}

func (s *session) openEngine(file *modelFile, opts sessionOptions) error {
	config := engineConfig{
		BudgetBytes: opts.les.budgetBytes,
		Slots:       opts.les.slots,
		File:        file,
		WorkBytes:   file.WorkBytes(s.lctx.Ubatch()) + opts.extra,
		Lookahead:   opts.les.lookahead,
		Lanes:       opts.les.lanes,
		WholeLayers: opts.les.wholeLayers,
		ReadDelay:   opts.les.readDelay,
		Log:         opts.log,
	}
	if s.drafting != nil {
		config.WorkBytes += s.drafting.later
	}
	if opts.record {
		s.routes = file.routesBuffer()
		config.Routes = s.routes
	}
	if config.Slots == slotsAll {
		config.Slots = file.Experts
	}
	if config.Slots == slotsFromBudget && config.BudgetBytes == 0 {
		budget, err := memoryForProcess()
		if err != nil {
			return fmt.Errorf("--les-budget is not given, and the memory there is cannot be told: %w", err)
		}
		config.BudgetBytes = budget
	}
	if opts.les.mode == lesAuto {
		s.because = fmt.Sprintf(" (auto: the model has routed experts; the budget is %d %% of the memory there is)", les.BudgetPercent())
	}
	var err error
	if s.engine, err = streaming.Open(s.lctx, config); err != nil {
		return fmt.Errorf("%s: %w", opts.path, err)
	}
	p := s.engine.Plan()
	if s.reason = p.Reason; s.reason == "" {
		warnOfBudget(opts.les.budgetBytes, p.Total, opts.log)
	}
	if opts.warm != "" && s.reason == "" {
		s.warm, err = startWarm(opts.warm, s.engine, opts.log)
	}
	return err
}

// describe prints the one line that says what is streamed and why, or why
// nothing is, and a line for each expert tensor that stays resident.
func (s *session) describe(out io.Writer) {
	if s.engine == nil || s.reason != "" {
		fmt.Fprintf(out, "les off: %s\n", s.reason)
		return
	}
	p := s.engine.Plan()
	fmt.Fprintf(out, "les on%s: %d expert slots for %d experts: %d as the floor, %.2f a layer above it; "+
		"dense %s + kv %s + compute %s + process %s + slots %s = %s",
		s.because, p.SlotCount, p.All, min(p.FloorSlots(), p.SlotCount), p.SlotsPerLayer(),
		formatSize(p.Dense), formatSize(p.KV), formatSize(p.Compute+p.Work), formatSize(p.Process),
		formatSize(p.Slots), formatSize(p.Total))
	if p.Budget > 0 {
		fmt.Fprintf(out, " of %s", formatSize(p.Budget))
	}
	fmt.Fprintln(out)
	if s.drafting != nil {
		s.drafting.describe(out)
	}
	for _, tensor := range p.Resident {
		fmt.Fprintf(out, "resident: %s, %s: not streamed\n", tensor.Name, formatSize(tensor.Bytes))
	}
}

// decode computes a batch; a failed read of an expert is the better reason.
func (s *session) decode(batch *llama.Batch) error {
	err := s.lctx.Decode(batch)
	if err == nil || s.engine == nil {
		return err
	}
	if reason := s.engine.Err(); reason != nil { // Err takes the reason: asking twice would lose it
		return reason
	}
	return err
}

// stats are the engine's counters, zero when everything is resident.
func (s *session) stats() engineStats {
	if s.engine == nil {
		return engineStats{}
	}
	return s.engine.Stats()
}

func (s *session) resetStats() {
	if s.engine != nil {
		s.engine.ResetStats()
	}
}

// Close frees everything in the order that C needs.
func (s *session) Close() {
	if s.engine != nil {
		s.engine.Close()
	}
	if s.drafting != nil {
		s.drafting.Close()
	}
	if s.lctx != nil {
		s.lctx.Close()
	}
	if s.model != nil {
		s.model.Close()
	}
}
