package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
)

// draftedAnswer generates as answer does, with drafted tokens in its steps. Each
// token is drawn from the model's own logits in order, from one state of the
// sampler, whether it was drafted or not: a draft that differs from what is drawn
// ends there, and the rest of it leaves no trace.
func (g *generation) draftedAnswer(ctx context.Context, batch *llama.Batch, sampler *llama.Sampler, tokens []llama.Token) error {
	d := g.session.drafting
	tokens = slices.Clone(tokens)
	d.drafter.Begin(tokens)
	d.last = g.session.counts()
	token := sampler.Sample(g.session.lctx, -1)
	g.watch.first = time.Now()
	for {
		if stopped, err := g.emit(ctx, token, len(tokens)); stopped || err != nil {
			return err
		}
		tokens = append(tokens, token)
		var err error
		if tokens, token, err = g.draftedStep(ctx, batch, sampler, tokens); err != nil || g.stop != "" {
			return err
		}
	}
}

// draftedStep verifies a draft behind the last token, which is not computed yet.
// It returns the tokens with those that were accepted, all of them written, and
// the one drawn after them.
func (g *generation) draftedStep(ctx context.Context, batch *llama.Batch, sampler *llama.Sampler, tokens []llama.Token) ([]llama.Token, llama.Token, error) {
	d, lctx := g.session.drafting, g.session.lctx
	pos := len(tokens) - 1
	clock := draftClock{begin: time.Now()}
	draft, drafted := d.propose(tokens, min(lctx.Tokens()-len(tokens), g.limit-g.generated-1, lctx.Batch()-1))
	batch.Clear()
	batch.Add(tokens[pos], pos, 0, true)
	for i, token := range draft {
		batch.Add(token, pos+1+i, 0, true)
	}
	clock.drafted = time.Now()
	err := g.session.decode(batch)
	clock.decoded = time.Now()
	if errors.Is(err, llama.ErrContextFull) {
		g.stop = stopFull
		return tokens, 0, nil
	}
	if err == nil {
		err = d.follow(batch, tokens[:pos])
	}
	clock.followed = time.Now()
	if err != nil {
		return tokens, 0, err
	}
	step := dspark.Step{Drafted: drafted, Verified: len(draft)}
	token := sampler.Sample(lctx, 0)
	for step.Accepted < len(draft) && token == draft[step.Accepted] {
		step.Accepted++
		var stopped bool
		if stopped, err = g.emit(ctx, token, len(tokens)); stopped || err != nil {
			break
		}
		tokens = append(tokens, token)
		token = sampler.Sample(lctx, step.Accepted)
	}
	g.decoded += 1 + step.Accepted
	if drafted > 0 {
		d.drafter.Accept(step.Accepted)
	}
	if step.Accepted < len(draft) {
		err = errors.Join(err, lctx.Truncate(0, pos+1+step.Accepted))
	}
	d.observe(step, clock, g.session.counts())
	return tokens, token, err
}

// emit writes a token that was drawn for a position, and tells whether the
// generation ends with it.
func (g *generation) emit(ctx context.Context, token llama.Token, pos int) (stopped bool, err error) {
	if g.session.model.EndsGeneration(token) {
		g.stop = stopEnd
		return true, nil
	}
	g.generated++
	if _, err := g.out.Write(g.session.model.Piece(token)); err != nil {
		return true, err
	}
	switch {
	case g.generated == g.limit:
		g.stop = stopLimit
	case pos >= g.session.lctx.Tokens():
		g.stop = stopFull
	case ctx.Err() != nil:
		g.stop = stopInterrupted
	}
	return g.stop != "", nil
}
