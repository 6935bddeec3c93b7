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
	s := g.session
	v, err := s.verify(batch, tokens, min(s.lctx.Tokens()-len(tokens), g.limit-g.generated-1))
	if errors.Is(err, llama.ErrContextFull) {
		g.stop = stopFull
		return tokens, 0, nil
	}
	if err != nil {
		return tokens, 0, err
	}
	token := sampler.Sample(s.lctx, 0)
	for v.agrees(token) {
		var stopped bool
		if stopped, err = g.emit(ctx, token, len(tokens)); stopped || err != nil {
			token = llama.NoToken // none is drawn behind it
			break
		}
		tokens = append(tokens, token)
		token = sampler.Sample(s.lctx, v.Accepted)
	}
	g.decoded += 1 + v.Accepted
	v.Token = token
	return tokens, token, errors.Join(err, s.settle(v))
}

// verification is a step whose draft is being compared with what the model says.
type verification struct {
	dspark.Step
	draft []llama.Token // what of it is in the step
	pos   int           // of the token before it
	clock draftClock
}

// agrees compares the next token of the draft with what is drawn in its place,
// and counts it as accepted if they are equal.
func (v *verification) agrees(token llama.Token) bool {
	if v.Accepted == len(v.draft) || token != v.draft[v.Accepted] {
		return false
	}
	v.Accepted++
	return true
}

// verify decodes the last token, and at most room drafted ones behind it.
func (s *session) verify(batch *llama.Batch, tokens []llama.Token, room int) (v verification, err error) {
	d := s.drafting
	v.pos = len(tokens) - 1
	v.clock.begin = time.Now()
	v.draft, v.Drafted = d.propose(tokens, min(room, s.lctx.Batch()-1))
	v.Verified = len(v.draft)
	batch.Clear()
	batch.Add(tokens[v.pos], v.pos, 0, true)
	for i, token := range v.draft {
		batch.Add(token, v.pos+1+i, 0, true)
	}
	v.clock.drafted = time.Now()
	err = s.decode(batch)
	v.clock.decoded = time.Now()
	if err == nil {
		err = d.follow(batch, tokens[:v.pos])
	}
	v.clock.followed = time.Now()
	return v, err
}

// settle takes back what was refused, and tells drafter and controller.
func (s *session) settle(v verification) (err error) {
	if v.Drafted > 0 {
		s.drafting.drafter.Accept(v.Accepted)
	}
	if v.Accepted < len(v.draft) {
		err = s.lctx.Truncate(0, v.pos+1+v.Accepted)
	}
	s.drafting.observe(v.Step, v.clock, s.counts())
	return err
}

// emit writes a token that was drawn for a position, and tells whether the
// generation ends with it.
func (g *generation) emit(ctx context.Context, token llama.Token, pos int) (stopped bool, err error) {
	if token == llama.NoToken {
		return true, llama.ErrNoToken
	}
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
