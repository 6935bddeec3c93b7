package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
)

// benchmark measures one arm in this process.
type benchmark struct {
	ctx      context.Context
	log      io.Writer
	settings benchSettings
	opened   benchOpened
	session  *session
	batch    *llama.Batch
	text     []llama.Token              // empty when tokens are random
	controls map[int]*dspark.Controller // of the arms that share this process, by width
	warm     bool
	sampled  bool // the last sample went well
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

func feedOf(tokens []llama.Token) tokenFeed { return (*textTokens)(&tokens) }

// open loads the model. It does nothing when that is done.
func (b *benchmark) open() (_ benchOpened, err error) {
	if b.session != nil {
		return b.opened, nil
	}
	begin := time.Now()
	s, err := openSession(b.ctx, b.settings.session(b.log))
	if err != nil {
		return benchOpened{}, err
	}
	if b.settings.Text != "" {
		if b.text, err = readTextTokens(s.model, b.settings); err != nil {
			s.Close()
			return benchOpened{}, err
		}
	}
	b.session, b.batch = s, llama.NewBatch(s.lctx.Batch())
	var description bytes.Buffer
	s.describe(&description)
	b.opened = benchOpened{
		Description: description.String(), Architecture: s.model.Architecture(), Threads: s.lctx.Threads(), Ubatch: s.lctx.Ubatch(),
		LoadSeconds: time.Since(begin).Seconds(), Streamed: s.engine != nil && s.reason == "", Reason: s.reason,
	}
	if b.opened.Streamed {
		b.opened.Plan = s.engine.Plan()
	}
	return b.opened, nil
}

// readTextTokens reads a text that must be long enough for every sample to
// have tokens of its own.
func readTextTokens(model *llama.Model, settings benchSettings) ([]llama.Token, error) {
	text, err := readText("--file (-f)", settings.Text)
	if err != nil {
		return nil, err
	}
	tokens, err := model.Tokenize(text, false)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.Text, err)
	}
	if len(tokens) < settings.textTokens() {
		return nil, fmt.Errorf("%s: has %d tokens, fewer than the %d to be fed: take fewer with -n, -p, -r or --warmup",
			settings.Text, len(tokens), settings.textTokens())
	}
	return tokens, nil
}

// tokens are those of one round, or of the warm-up for round -1. They depend on
// the round alone, so that all arms are fed the same whichever process feeds.
func (b *benchmark) tokens(round int) tokenFeed {
	if len(b.text) == 0 {
		return &tokenSource{rand.New(rand.NewPCG(b.settings.Seed, uint64(round))), b.session.model.VocabSize()}
	}
	from := 0
	if round >= 0 {
		from = b.settings.Warmup + round*(b.settings.Prompt+b.settings.Decode)
	}
	return feedOf(b.text[from:])
}

// sample feeds the tokens of one round into an empty context, after the warm-up
// if there was none yet.
func (b *benchmark) sample(turn benchTurn) (sample benchSample, err error) {
	defer func() { b.sampled = err == nil }()
	sample = benchSample{Round: turn.Round, LoadSeconds: b.opened.LoadSeconds}
	if err = b.warmUp(); err != nil {
		return sample, err
	}
	b.session.lctx.Clear()
	if b.settings.Draft != nil {
		sample.Prefill, sample.Decode, sample.Draft, err = b.drafted(turn)
	} else {
		sample.Prefill, sample.Decode, err = b.plain(feedOf(b.turnTokens(turn)))
	}
	sample.PeakRSSBytes = peakMemory()
	return sample, err
}

// warmUp feeds the first tokens and waits until there is memory behind every
// slot, so that no sample pays for the first use of pages.
func (b *benchmark) warmUp() error {
	if b.warm {
		return nil
	}
	b.warm = true
	if err := b.feed(b.tokens(-1), 0, b.settings.Warmup, 1); err != nil {
		return err
	}
	if b.settings.Draft != nil { // the first steps of several tokens are slow too
		widest := b.session.drafting.config.Max + 1 // the drafter may allow less than was asked for
		b.session.lctx.Clear()
		if err := b.feed(b.tokens(-1), 0, wideWarmup*widest, widest); err != nil {
			return err
		}
	}
	if b.session.engine != nil {
		b.session.engine.WaitPopulated()
		b.waitAllRead()
	}
	return b.ctx.Err()
}

// waitAllRead waits until the engine has read all experts, which it does in the
// background when each has a slot: that arm stands for everything in memory.
func (b *benchmark) waitAllRead() {
	if plan := b.session.engine.Plan(); plan.SlotCount < plan.All {
		return
	}
	for b.ctx.Err() == nil && !b.session.engine.Idle() {
		time.Sleep(time.Millisecond)
	}
}

// plain feeds the prompt in batches, then one token at a time.
func (b *benchmark) plain(tokens tokenFeed) (prefill, decode benchPhase, err error) {
	prompt := b.settings.Prompt
	prefill, err = b.timed(prompt, func() error { return b.feed(tokens, 0, prompt, b.session.lctx.Batch()) })
	if err != nil {
		return prefill, decode, err
	}
	decode, err = b.timed(b.settings.Decode, func() error { return b.feed(tokens, prompt, b.settings.Decode, 1) })
	return prefill, decode, err
}

// feed decodes n tokens from a position on, step at a time.
func (b *benchmark) feed(tokens tokenFeed, pos, n, step int) error {
	for end := pos + n; pos < end; {
		if b.ctx.Err() != nil {
			return b.ctx.Err()
		}
		b.batch.Clear()
		for count := min(step, end-pos); count > 0; count-- {
			b.batch.Add(tokens.next(), pos, 0, count == 1)
			pos++
		}
		if err := b.session.decode(b.batch); err != nil {
			return err
		}
	}
	return nil
}

// close writes the warm file, if there is one, and frees the model. A later
// open loads it again.
func (b *benchmark) close() (err error) {
	if b.session == nil {
		return nil
	}
	if b.sampled {
		err = saveWarm(b.session.warm)
	}
	b.batch.Close()
	b.session.Close()
	b.session, b.controls, b.warm, b.sampled = nil, nil, false, false
	return err
}
