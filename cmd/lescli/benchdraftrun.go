package main

import (
	"errors"
	"slices"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
)

// benchTurn asks for a sample.
type benchTurn struct {
	Round  int
	Width  int           // drafted tokens to verify, or one of the other widths
	Tokens []llama.Token // prompt and answer to follow; empty for those of the round
}

// record has the model answer the prompt of a round. All arms follow that answer:
// what is drawn depends on rounding, which steps of several tokens do otherwise.
func (b *benchmark) record(round int) (tokens []llama.Token, err error) {
	s := b.session
	if err = b.warmUp(); err != nil {
		return nil, err
	}
	s.lctx.Clear()
	feed := b.tokens(round)
	for range b.settings.Prompt {
		tokens = append(tokens, feed.next())
	}
	if err = b.feed(feedOf(tokens), 0, len(tokens), s.lctx.Batch()); err != nil {
		return nil, err
	}
	params := llama.SamplerParams{Temperature: b.settings.AnswerTemp, TopK: 40, TopP: 0.95, Seed: uint32(b.settings.Seed) + uint32(round)}
	sampler, err := llama.NewSampler(s.model, params)
	if err != nil {
		return nil, err
	}
	defer sampler.Close()
	for range b.settings.Decode {
		token := sampler.Sample(s.lctx, -1)
		tokens = append(tokens, token)
		if err = b.feed(feedOf(tokens[len(tokens)-1:]), len(tokens)-1, 1, 1); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// turnTokens are what a sample feeds.
func (b *benchmark) turnTokens(turn benchTurn) []llama.Token {
	if len(turn.Tokens) > 0 {
		return turn.Tokens
	}
	tokens, feed := make([]llama.Token, b.settings.Prompt+b.settings.Decode), b.tokens(turn.Round)
	for i := range tokens {
		tokens[i] = feed.next()
	}
	return tokens
}

// control puts the drafter under the controller of a width, which keeps what it
// has learnt from one round to the next.
func (b *benchmark) control(width int) {
	if b.controls[width] == nil {
		config := b.session.drafting.config
		config.Fixed = min(width, config.Max)
		if b.controls == nil {
			b.controls = map[int]*dspark.Controller{}
		}
		b.controls[width] = dspark.New(config)
	}
	b.session.drafting.control = b.controls[width]
}

// drafted measures a turn whose tokens are drafted, as far as the drafter knows
// them.
func (b *benchmark) drafted(turn benchTurn) (prefill, decode benchPhase, stats dspark.Stats, err error) {
	d, text := b.session.drafting, b.turnTokens(turn)
	b.control(turn.Width)
	d.control.ResetStats()
	d.begin()
	if known, ok := d.drafter.(*synthetic); ok {
		known.text, known.round, known.vocab = text, turn.Round, b.session.model.VocabSize()
	}
	prompt := b.settings.Prompt
	prefill, err = b.timed(prompt, func() error { return b.feedPrompt(text[:prompt]) })
	if err != nil {
		return prefill, decode, stats, err
	}
	d.drafter.Begin(text[:prompt])
	decode, err = b.timed(len(text)-prompt, func() error { return b.follow(text, prompt) })
	return prefill, decode, d.control.Stats(), err
}

// feedPrompt decodes the prompt, and has the drafter see it.
func (b *benchmark) feedPrompt(prompt []llama.Token) error {
	for pos := 0; pos < len(prompt); {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		end := min(pos+b.session.lctx.Batch(), len(prompt))
		b.batch.Clear()
		for at := pos; at < end; at++ {
			b.batch.Add(prompt[at], at, 0, at == len(prompt)-1)
		}
		err := b.session.decode(b.batch)
		if err == nil {
			err = b.session.drafting.follow(b.batch, prompt[:pos])
		}
		if err != nil {
			return err
		}
		pos = end
	}
	return nil
}

// follow decodes the text from a position on, in steps with drafts: what is drawn
// is always the next token of the text.
func (b *benchmark) follow(text []llama.Token, pos int) error {
	s := b.session
	s.drafting.last = s.counts()
	for pos < len(text) {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		v, err := s.verify(b.batch, text[:pos+1], len(text)-pos-1)
		if err != nil {
			return err
		}
		for v.Accepted < len(v.draft) && v.agrees(text[pos+1+v.Accepted]) {
		}
		v.Token = llama.NoToken
		if next := pos + 1 + v.Accepted; next < len(text) {
			v.Token = text[next]
		}
		if err := s.settle(v); err != nil {
			return err
		}
		pos += 1 + v.Accepted
	}
	return nil
}

// timed measures what n tokens take.
func (b *benchmark) timed(n int, do func() error) (benchPhase, error) {
	if n == 0 {
		return benchPhase{}, do()
	}
	b.session.resetStats()
	before, begin := usageNow(), time.Now()
	err := do()
	seconds := time.Since(begin).Seconds()
	return benchPhase{Tokens: n, Seconds: seconds, Stats: b.session.stats(), Usage: usageNow().minus(before)}, err
}

// recordAnswer has the first arm, which drafts nothing, answer; nil where the
// arms are fed.
func (r *benchRun) recordAnswer(round int) ([]llama.Token, error) {
	at := slices.IndexFunc(r.arms, func(arm *armRun) bool { return arm.Draft != nil && arm.Draft.Kind != draftSynthetic })
	if at < 0 {
		return nil, nil
	}
	arm := r.arms[0]
	if _, err := arm.source.open(); err != nil {
		return nil, err
	}
	tokens, err := arm.source.record(round)
	if r.perSample {
		err = errors.Join(err, arm.source.close())
	}
	return tokens, err
}
