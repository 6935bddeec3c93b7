package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// Why a generation ended.
const (
	stopEnd         = "end of text"
	stopLimit       = "token limit"
	stopFull        = "context full"
	stopInterrupted = "interrupted"
)

// stopwatch notes the moments of a run.
type stopwatch struct {
	begin, ready, prefilled, first, end time.Time
}

func (w *stopwatch) start()  { w.begin = time.Now() }
func (w *stopwatch) loaded() { w.ready = time.Now() }

// generation is one prompt and its answer.
type generation struct {
	session *session
	out     io.Writer
	limit   int
	line    *progressLine

	watch     stopwatch
	prompt    int // tokens computed
	generated int
	decoded   int // tokens fed after the prompt
	stop      string
	prefill   engineStats
	decode    engineStats
}

// run computes the prompt and generates until something stops it.
func (g *generation) run(ctx context.Context, tokens []llama.Token, params llama.SamplerParams) error {
	sampler, err := llama.NewSampler(g.session.model, params)
	if err != nil {
		return err
	}
	defer sampler.Close()
	batch := llama.NewBatch(g.session.lctx.Batch())
	defer batch.Close()

	g.session.resetStats()
	err = g.feedPrompt(ctx, batch, tokens)
	g.watch.prefilled = time.Now()
	g.watch.first = g.watch.prefilled
	g.prefill = g.session.stats()
	g.session.resetStats()
	switch {
	case err != nil || g.stop != "":
	case g.session.drafting != nil:
		err = g.draftedAnswer(ctx, batch, sampler, tokens)
	default:
		err = g.answer(ctx, batch, sampler, len(tokens))
	}
	g.watch.end = time.Now()
	g.decode = g.session.stats()
	return err
}

// feedPrompt computes the prompt in batches, so that it can be interrupted
// between them.
func (g *generation) feedPrompt(ctx context.Context, batch *llama.Batch, tokens []llama.Token) error {
	step := g.session.lctx.Batch()
	defer g.line.clear()
	d := g.session.drafting
	if d != nil {
		d.begin()
	}
	for start := 0; start < len(tokens); start += step {
		if ctx.Err() != nil {
			g.stop = stopInterrupted
			return nil
		}
		end := min(start+step, len(tokens))
		batch.Clear()
		for pos := start; pos < end; pos++ {
			batch.Add(tokens[pos], pos, 0, pos == len(tokens)-1)
		}
		if err := g.session.decode(batch); err != nil {
			return err
		}
		if d != nil {
			if err := d.follow(batch, tokens[:start]); err != nil {
				return err
			}
		}
		g.prompt = end
		g.line.show("prompt: %d of %d tokens", end, len(tokens))
	}
	return nil
}

// answer draws tokens and prints them until something stops it.
func (g *generation) answer(ctx context.Context, batch *llama.Batch, sampler *llama.Sampler, pos int) error {
	lctx := g.session.lctx
	for {
		token := sampler.Sample(lctx, -1)
		if g.generated == 0 {
			g.watch.first = time.Now()
		}
		if stopped, err := g.emit(ctx, token, pos); stopped || err != nil {
			return err
		}
		batch.Clear()
		batch.Add(token, pos, 0, true)
		err := g.session.decode(batch)
		if errors.Is(err, llama.ErrContextFull) {
			g.stop = stopFull
			return nil
		}
		if err != nil {
			return err
		}
		pos++
		g.decoded++
	}
}
