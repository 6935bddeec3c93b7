package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// benchmark feeds tokens and collects samples.
type benchmark struct {
	session *session
	batch   *llama.Batch
	tokens  tokenFeed

	prefill, decode           []float64 // tokens a second
	prefillStats, decodeStats engineStats
}

// tokenFeed is where fed tokens come from.
type tokenFeed interface{ next() llama.Token }

// textTokens feeds the tokens of a text in order.
type textTokens []llama.Token

func (t *textTokens) next() llama.Token {
	token := (*t)[0]
	*t = (*t)[1:]
	return token
}

// benchShape is how many tokens are fed, and in how many turns.
type benchShape struct {
	warmup, repetitions, prompt, decode int
}

func (b benchShape) tokens() int { return b.warmup + b.repetitions*(b.prompt+b.decode) }

// newTextTokens reads a text that must be long enough for every repetition to
// have tokens of its own.
func newTextTokens(model *llama.Model, path string, shape benchShape) (*textTokens, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	tokens, err := model.Tokenize(string(text), false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(tokens) < shape.tokens() {
		return nil, fmt.Errorf("%s: has %d tokens, fewer than the %d to be fed: take fewer with -n, -p, -r or --warmup", path, len(tokens), shape.tokens())
	}
	feed := textTokens(tokens)
	return &feed, nil
}

func (b *benchmark) run(ctx context.Context, shape benchShape) error {
	if err := b.feed(ctx, 0, shape.warmup, 1); err != nil {
		return err
	}
	for range shape.repetitions {
		b.session.lctx.Clear()
		if shape.prompt > 0 {
			speed, stats, err := b.measure(ctx, 0, shape.prompt, b.session.lctx.Batch())
			if err != nil {
				return err
			}
			b.prefill = append(b.prefill, speed)
			b.prefillStats = b.prefillStats.plus(stats)
		}
		speed, stats, err := b.measure(ctx, shape.prompt, shape.decode, 1)
		if err != nil {
			return err
		}
		b.decode = append(b.decode, speed)
		b.decodeStats = b.decodeStats.plus(stats)
	}
	return nil
}

// measure feeds n tokens and returns the speed and the engine's counters.
func (b *benchmark) measure(ctx context.Context, pos, n, step int) (float64, engineStats, error) {
	b.session.resetStats()
	begin := time.Now()
	err := b.feed(ctx, pos, n, step)
	return perSecond(n, time.Since(begin)), b.session.stats(), err
}

// feed decodes n tokens from a position on, step at a time.
func (b *benchmark) feed(ctx context.Context, pos, n, step int) error {
	for end := pos + n; pos < end; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		b.batch.Clear()
		for count := min(step, end-pos); count > 0; count-- {
			b.batch.Add(b.tokens.next(), pos, 0, count == 1)
			pos++
		}
		if err := b.session.decode(b.batch); err != nil {
			return err
		}
	}
	return nil
}
