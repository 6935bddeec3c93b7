package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

// feedShape is how tokens are cut into batches: the prompt of all sequences in
// as few batches as the context takes, then one token of each sequence at a
// time. Equal shapes give equal batches, whatever the model does.
type feedShape struct {
	threads, ubatch, prompt, gen, seqs int
}

func (f feedShape) String() string {
	return fmt.Sprintf("threads %d, ubatch %d, prompt %d, gen %d, seqs %d", f.threads, f.ubatch, f.prompt, f.gen, f.seqs)
}

// feedBatchMin makes several ubatches share a batch where ubatches are small.
const feedBatchMin = 128

// contextParams is a context with room for the shape.
func (f feedShape) contextParams() llama.ContextParams {
	return llama.ContextParams{
		Tokens: f.seqs * (f.prompt + f.gen), Batch: max(f.ubatch, feedBatchMin, f.seqs),
		Ubatch: f.ubatch, Seqs: f.seqs, Threads: f.threads,
	}
}

// tokenSource gives pseudo-random tokens, the same ones for the same seed.
type tokenSource struct {
	random *rand.Rand
	vocab  int
}

func newTokenSource(seed uint64, vocab int) *tokenSource {
	return &tokenSource{rand.New(rand.NewPCG(seed, 0)), vocab}
}

func (t *tokenSource) next() llama.Token { return llama.Token(t.random.IntN(t.vocab)) }

// logitVisitor receives the logits of each token in the order of the batches.
type logitVisitor func(position, sequence int, logits []float32) error

// place is where a token of a batch belongs.
type place struct{ position, sequence int }

// feeder fills batches and visits their logits.
type feeder struct {
	session *session
	batch   *llama.Batch
	places  []place
	visit   logitVisitor
}

// feedAll feeds a shape and visits the logits of every token.
func feedAll(ctx context.Context, s *session, shape feedShape, seed uint64, visit logitVisitor) error {
	f := &feeder{session: s, batch: llama.NewBatch(s.lctx.Batch()), visit: visit}
	defer f.batch.Close()
	tokens := newTokenSource(seed, s.model.VocabSize())
	for position := range shape.prompt + shape.gen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		full := f.batch.Len()+shape.seqs > s.lctx.Batch()
		if full || position >= shape.prompt {
			if err := f.flush(); err != nil {
				return err
			}
		}
		for sequence := range shape.seqs {
			f.batch.Add(tokens.next(), position, sequence, true)
			f.places = append(f.places, place{position, sequence})
		}
	}
	return f.flush()
}

// flush decodes what was collected.
func (f *feeder) flush() error {
	if f.batch.Len() == 0 {
		return nil
	}
	if err := f.session.decode(f.batch); err != nil {
		return err
	}
	for i, at := range f.places {
		logits, err := f.session.lctx.Logits(i)
		if err == nil {
			err = f.visit(at.position, at.sequence, logits)
		}
		if err != nil {
			return err
		}
	}
	f.batch.Clear()
	f.places = f.places[:0]
	return nil
}

// parseInts reads a list of numbers, none below least.
func parseInts(c *cli.Context, flag string, least int) ([]int, error) {
	var values []int
	for _, text := range c.StringSlice(flag) {
		value, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			return nil, usagef("--%s: %q is not a number", flag, text)
		}
		if value < least {
			return nil, usagef("--%s: %d must be at least %d", flag, value, least)
		}
		if most := countMax(flag); value > most {
			return nil, usagef("--%s: %d is more than %d", flag, value, most)
		}
		values = append(values, value)
	}
	return values, nil
}
