package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/les-project/les/cgo/draft"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
	"github.com/urfave/cli/v2"
)

const (
	draftAuto       = "auto"
	draftMaxDefault = 7
)

// draftOptions are the --draft* flags after parsing.
type draftOptions struct {
	kind  string // upstream's name of the type, empty for no drafting
	path  string // model of the drafter, empty where none is needed
	max   int    // most tokens of a draft
	given bool   // max was asked for
	width int    // verify always so many tokens, 0 as many as pay

	budgetBytes int64          // for the drafter's experts, 0 when not given
	stream      draftStream    // how these are streamed
	synthetic   syntheticDraft // what bench drafts without a drafter
}

func draftFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "draft", Usage: "model that drafts tokens for this one to verify"},
		&cli.StringFlag{Name: "draft-type", Value: draftAuto, Usage: "how tokens are drafted, as llama.cpp names it: draft-dspark, draft-mtp, ngram-simple, ...; auto looks at the file of --draft, which it needs"},
		&cli.IntFlag{Name: "draft-max", Value: draftMaxDefault, Usage: "most tokens of a draft"},
		draftBudgetFlag(),
		&cli.IntFlag{Name: "draft-width", Usage: "verify always so many drafted tokens", DefaultText: "as many as pay"},
	}
}

func draftBudgetFlag() cli.Flag {
	return &cli.StringFlag{Name: "draft-budget", Usage: "memory for the experts of the drafter, if it has any, of their own (default: an eighth of --les-budget, or as --les-slots)"}
}

// parseDraft reads the --draft* flags.
func parseDraft(c *cli.Context) (draftOptions, error) {
	opts := draftOptions{path: c.String("draft"), kind: c.String("draft-type"), max: c.Int("draft-max"),
		given: c.IsSet("draft-max"), width: c.Int("draft-width")}
	switch {
	case c.IsSet("draft") && opts.path == "":
		return opts, usagef("--draft is empty")
	case opts.max < 1 || opts.max > dspark.WidthMax:
		return opts, usagef("--draft-max: %d is not between 1 and %d", opts.max, dspark.WidthMax)
	case opts.width < 0 || opts.width > opts.max:
		return opts, usagef("--draft-width: %d is not between 0 and --draft-max, which is %d", opts.width, opts.max)
	}
	if c.IsSet("draft-budget") {
		var err error
		if opts.budgetBytes, err = parseSize("draft-budget", c.String("draft-budget")); err != nil {
			return opts, err
		}
		if opts.path == "" {
			return opts, usagef("--draft-budget without --draft")
		}
	}
	if opts.kind == draftAuto {
		return opts.detect(c)
	}
	switch {
	case !draft.Known(opts.kind):
		return opts, usagef("--draft-type: llama.cpp has no drafter %q", opts.kind)
	case opts.path == "" && draft.NeedsModel(opts.kind):
		return opts, usagef("--draft-type %s needs a model: --draft is missing", opts.kind)
	case opts.path != "" && !draft.NeedsModel(opts.kind) && !draft.UsesNextN(opts.kind):
		return opts, usagef("--draft and --draft-type %s contradict: it drafts without a model", opts.kind)
	}
	return opts, nil
}

// detect finds the type of the drafter's file; without one nothing is drafted.
func (o draftOptions) detect(c *cli.Context) (_ draftOptions, err error) {
	o.kind = ""
	if o.path != "" {
		o.kind, err = draftTypeOf(o.path)
		return o, err
	}
	if c.IsSet("draft-type") {
		return o, usagef("--draft-type %s needs a file to look at: --draft is missing", draftAuto)
	}
	for _, name := range []string{"draft-max", "draft-width"} {
		if c.IsSet(name) {
			return o, usagef("--%s without --draft or --draft-type", name)
		}
	}
	return o, nil
}

// draftTypeOf is how a model drafts.
func draftTypeOf(path string) (string, error) {
	file, err := readModelFile(path)
	if err != nil {
		return "", err
	}
	if file.Arch == "eagle3" { // which llama.cpp wants to be told
		return "draft-eagle3", nil
	}
	return draft.TypeOf(path)
}

// fromTarget tells whether the model's own NextN block drafts.
func (o draftOptions) fromTarget() bool {
	return o.kind != "" && o.path == "" && draft.UsesNextN(o.kind)
}

// widen makes room in a context for the steps that verify drafts.
func (o draftOptions) widen(params llama.ContextParams) llama.ContextParams {
	if o.kind == "" {
		return params
	}
	params.Rollback = o.max
	if params.Outputs > 0 {
		params.Outputs += o.max
	}
	return params
}

// drafting is what drafts tokens for one context, and what decides how many.
type drafting struct {
	kind    string
	file    *modelFile   // of the drafter, nil where none of its experts are streamed
	engine  engine       // of them, nil without
	model   *llama.Model // nil where the drafter has none of its own
	drafter proposer
	config  dspark.Config
	control *dspark.Controller

	tokens      []llama.Token // of this draft
	confidences []float32
	last        engineCounts // of the engine, before this step
	later       int64        // bytes that the drafter's context takes at its first step
}

// proposer is a drafter: package draft's, or one of a test.
type proposer interface {
	Max() int
	Sequential() bool
	Clear()
	Begin(prompt []llama.Token)
	Process(batch *llama.Batch, before []llama.Token) error
	Draft(tokens []llama.Token, n int, draft []llama.Token, confidences []float32) ([]llama.Token, []float32)
	Accept(n int)
	Close()
}

// openDrafting loads the drafter's model and starts it.
func openDrafting(opts draftOptions, file *modelFile, lctx *llama.Context) (_ *drafting, err error) {
	if !lctx.CanRollback() {
		return nil, errors.New("refused tokens cannot be taken back from the state of this model")
	}
	d := &drafting{kind: opts.kind}
	if opts.kind == draftSynthetic {
		return d, d.start(&synthetic{syntheticDraft: opts.synthetic, max: opts.max}, opts.width, file)
	}
	defer func() {
		if err != nil {
			d.Close()
		}
	}()
	if opts.path != "" {
		if err = d.load(opts.path, llama.ModelParams{NextN: draft.UsesNextN(opts.kind)}, opts.stream); err != nil {
			return nil, err
		}
	}
	most, block := opts.max, opts.max
	if d.model != nil {
		block = d.model.DraftBlock(most)
	}
	if !opts.given {
		most = min(most, block)
	}
	if needed := max(most, block) + 1; lctx.Ubatch() < needed {
		return nil, fmt.Errorf("--ubatch (-ub): %d tokens are too few for drafts of %d: %d is the least", lctx.Ubatch(), needed-1, needed)
	}
	opened, err := draft.Open(lctx, draft.Params{Type: opts.kind, Model: d.model, Max: most, Threads: lctx.Threads()})
	if err != nil {
		name := opts.path
		if name == "" {
			name = opts.kind
		}
		return nil, fmt.Errorf("%s: cannot draft: %w", name, err)
	}
	d.later = touchedLater(opened.Context(), d.fileOr(file))
	if err = d.start(opened, opts.width, file); err == nil && d.file != nil {
		err = d.stream(opts.path, opened.Context(), opts.stream)
	}
	return d, err
}

// fileOr is where the drafter's experts are: in its own file, or in that of the
// model, whose NextN block drafts; nil where it has none.
func (d *drafting) fileOr(target *modelFile) *modelFile {
	if d.model != nil {
		return d.file
	}
	return target
}

// touchedLater is what a drafter's context, if it has one, takes at its first step.
func touchedLater(lctx *llama.Context, file *modelFile) int64 {
	if lctx == nil {
		return 0
	}
	bytes := lctx.Memory().ComputeBytes
	if file != nil {
		bytes += file.WorkBytes(lctx.Ubatch())
	}
	return bytes
}

// start puts a drafter under a controller.
func (d *drafting) start(drafter proposer, width int, file *modelFile) error {
	d.drafter = drafter
	d.config = dspark.Config{Max: drafter.Max(), Sequential: drafter.Sequential(), Fixed: min(width, drafter.Max())}
	if len(file.layers) > 0 {
		d.config.Experts, d.config.Used = file.Experts, file.Used
	}
	if err := d.config.Validate(); err != nil {
		return err
	}
	d.control = dspark.New(d.config)
	return nil
}

// Close frees the drafter before its model.
func (d *drafting) Close() {
	if d.engine != nil {
		d.engine.Close()
	} else if d.file != nil {
		draftStreaming.Disable()
	}
	if d.drafter != nil {
		d.drafter.Close()
	}
	if d.model != nil {
		d.model.Close()
	}
}

// begin starts a request: nothing of the one before is left.
func (d *drafting) begin() {
	d.drafter.Clear()
	d.control.Begin()
}

// follow keeps the drafter up to date with a batch that was decoded, as long as
// it is in use.
func (d *drafting) follow(batch *llama.Batch, before []llama.Token) error {
	if !d.control.Drafting() {
		return nil
	}
	err := d.drafter.Process(batch, before)
	if err != nil && d.engine != nil {
		err = errors.Join(err, d.engine.Err())
	}
	return err
}

// propose drafts what may follow tokens, the last of which is not computed, and
// returns what is worth verifying of it.
func (d *drafting) propose(tokens []llama.Token, room int) (draft []llama.Token, drafted int) {
	d.tokens, d.confidences = d.tokens[:0], d.confidences[:0]
	if n := d.control.Next(room); n > 0 {
		d.tokens, d.confidences = d.drafter.Draft(tokens, n, d.tokens, d.confidences)
	}
	return d.tokens[:d.control.Verify(d.confidences, len(d.tokens))], len(d.tokens)
}

// draftClock notes the moments of a step.
type draftClock struct{ begin, drafted, decoded, followed time.Time }

// observe tells the controller what became of a step.
func (d *drafting) observe(s dspark.Step, clock draftClock, now engineCounts) {
	s.DraftNS = int64(clock.drafted.Sub(clock.begin) + clock.followed.Sub(clock.decoded))
	s.StepNS = int64(clock.decoded.Sub(clock.drafted))
	s.Experts, s.ReadBytes = now.lookups-d.last.lookups, now.bytes-d.last.bytes
	s.Draft = d.tokens
	d.last = now
	d.control.Observe(s)
}

// engineCounts are those of the engine that the controller learns from.
type engineCounts struct{ lookups, bytes int64 }

func (s *session) counts() engineCounts {
	if s.engine == nil {
		return engineCounts{}
	}
	stats := s.engine.Stats()
	return engineCounts{lookups: stats.total().Lookups, bytes: stats.BytesDemand + stats.BytesPrefetch}
}
