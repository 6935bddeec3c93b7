package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/outfile"
	"github.com/les-project/les/lesext/trace"
	"github.com/urfave/cli/v2"
)

func traceCommand() *cli.Command {
	return &cli.Command{
		Name:  "trace",
		Usage: "record which experts a text routes to",
		Description: "Feeds the tokens of a text, or pseudo-random ones, and writes what each layer " +
			"routed to and what was guessed for it. lescli replay reads the file.",
		Flags: append([]cli.Flag{
			modelFlag(), threadsFlag(),
			&cli.IntFlag{Name: "ctx", Aliases: []string{"c"}, Value: 512, Usage: "tokens after which the context is emptied"},
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "feed the tokens of this text instead of random ones"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the same from a file, - for standard input"},
			&cli.IntFlag{Name: "n", Usage: "tokens to feed", DefaultText: fmt.Sprintf("all of the text, or %d random ones", randomTokens)},
			&cli.IntFlag{Name: "step", Value: 1, Usage: "tokens computed at once"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of random tokens"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "file to write"},
		}, lesFlags()...),
		Action: runTrace,
	}
}

// randomTokens is how many are fed when neither a text nor a number is given.
const randomTokens = 128

// traceOptions are the flags of trace after parsing.
type traceOptions struct {
	session sessionOptions
	text    string
	hasText bool
	tokens  int // 0 for all of the text
	step    int
	seed    uint64
	out     string
}

func parseTrace(c *cli.Context) (opts traceOptions, err error) {
	err = errors.Join(noArguments(c), checkCounts(c, "threads", "ctx", "step"))
	if err == nil && c.IsSet("n") {
		err = checkCounts(c, "n")
	}
	if err != nil {
		return opts, err
	}
	opts = traceOptions{tokens: c.Int("n"), step: c.Int("step"), seed: c.Uint64("seed")}
	opts.hasText = c.IsSet("prompt") || c.IsSet("file")
	switch {
	case c.String("out") == "":
		return opts, usagef("--out (-o) is missing")
	case opts.hasText && c.IsSet("seed"):
		return opts, usagef("--seed contradicts a text, which has its own tokens")
	case opts.step > c.Int("ctx"):
		return opts, usagef("--step: %d is more than the context of %d tokens (--ctx, -c)", opts.step, c.Int("ctx"))
	}
	les, err := parseLES(c)
	switch {
	case err != nil:
		return opts, err
	case les.mode == lesOff:
		return opts, usagef("--les off: only streamed experts are recorded")
	}
	if opts.hasText {
		if opts.text, err = readPrompt(c); err != nil {
			return opts, err
		}
	}
	opts.session = sessionOptions{
		les: les, record: true, origin: contextOriginOf(c), line: newProgressLine(c.App.ErrWriter), log: c.App.ErrWriter,
		resident: llama.ModelParams{LoadMode: llama.LoadMap, Repack: true},
		context:  llama.ContextParams{Tokens: c.Int("ctx"), Batch: opts.step, Ubatch: opts.step, Seqs: 1, Outputs: 1, Threads: c.Int("threads")},
	}
	if opts.session.path, err = modelPath(c); err != nil {
		return opts, err
	}
	opts.out, err = checkReplaceable("out", c.String("out"), outfile.Kind{Magic: trace.Magic, Name: "a recording of routes"})
	return opts, err
}

func runTrace(c *cli.Context) error {
	opts, err := parseTrace(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	if err := checkTraced(opts); err != nil {
		return err
	}
	s, err := openSession(ctx, opts.session)
	if err != nil {
		return err
	}
	defer s.Close()
	s.describe(c.App.ErrWriter)
	if s.reason != "" {
		return fmt.Errorf("%s: there are no routes to record: %s", opts.session.path, s.reason)
	}
	return recordTo(ctx, c.App.Writer, s, opts)
}

// checkTraced refuses a text that is too short before the weights are read.
func checkTraced(opts traceOptions) error {
	if !opts.hasText {
		return nil
	}
	return withVocabulary(opts.session.path, func(model *llama.Model) error {
		_, _, err := traceTokens(model, opts)
		return err
	})
}

// recordTo feeds all tokens and writes the file.
func recordTo(ctx context.Context, out io.Writer, s *session, opts traceOptions) error {
	feed, n, err := traceTokens(s.model, opts)
	if err != nil {
		return err
	}
	file, err := createPart("out", opts.out)
	if err != nil {
		return err
	}
	r := &recorder{session: s, line: opts.session.line}
	if r.writer, err = trace.NewWriter(file, trace.HeaderOf(filepath.Base(s.model.Path()), s.engine.Geometry())); err == nil {
		err = r.run(ctx, feed, n, opts.step)
	}
	if err == nil {
		if err = r.writer.Close(); err != nil {
			err = fmt.Errorf("--out: %w", err)
		}
	}
	if err != nil {
		file.Discard()
		return err
	}
	bytes, err := file.Bytes()
	if err = errors.Join(err, file.commit()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %d tokens in %d layers, %d sets, %s\n", opts.out, n, s.engine.Plan().Layers, r.sets, formatSize(bytes))
	return err
}

// traceTokens returns what is fed and how much of it.
func traceTokens(model *llama.Model, opts traceOptions) (tokenFeed, int, error) {
	if !opts.hasText {
		n := opts.tokens
		if n == 0 {
			n = randomTokens
		}
		return newTokenSource(opts.seed, model.VocabSize()), n, nil
	}
	tokens, err := model.Tokenize(opts.text, true)
	if err != nil {
		return nil, 0, err
	}
	switch {
	case len(tokens) == 0:
		return nil, 0, errEmptyPrompt
	case opts.tokens > len(tokens):
		return nil, 0, fmt.Errorf("the text has %d tokens, fewer than the %d of -n", len(tokens), opts.tokens)
	case opts.tokens > 0:
		tokens = tokens[:opts.tokens]
	}
	return feedOf(tokens), len(tokens), nil
}

// recorder feeds tokens and writes what they route to after each step.
type recorder struct {
	session *session
	line    *progressLine
	writer  *trace.Writer
	sets    int
}

func (r *recorder) run(ctx context.Context, feed tokenFeed, n, step int) error {
	batch := llama.NewBatch(step)
	defer batch.Close()
	defer r.line.clear()
	room, pos := r.session.lctx.Tokens(), 0
	for fed := 0; fed < n; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if pos == room {
			r.session.lctx.Clear()
			pos = 0
		}
		batch.Clear()
		for count := min(step, n-fed, room-pos); count > 0; count-- {
			batch.Add(feed.next(), pos, 0, count == 1)
			pos++
			fed++
		}
		if err := r.session.decode(batch); err != nil {
			return err
		}
		if err := r.take(); err != nil {
			return err
		}
		r.line.show("recording: %d of %d tokens", fed, n)
	}
	return nil
}

// take writes what the last step has left.
func (r *recorder) take() error {
	lost, err := r.session.routes.Drain(func(s trace.Set) error {
		r.sets++
		return r.writer.Write(s)
	})
	switch {
	case err != nil:
		return fmt.Errorf("--out: %w", err)
	case lost > 0:
		return fmt.Errorf("a step routed %d sets more than were expected of it", lost)
	}
	return nil
}
