package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure speed with fed tokens",
		Description: "Feeds tokens instead of drawing them, so that runs route the same experts\n" +
			"whatever the --les-* flags are: those of a text, or pseudo-random ones. Each\n" +
			"repetition has its own tokens and starts with an empty context. A list of\n" +
			"--les-slots, separated by commas, is measured one by one.",
		Flags: append([]cli.Flag{
			modelFlag(), threadsFlag(), ubatchFlag(),
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "feed the tokens of this text instead of random ones"},
			&cli.IntFlag{Name: "prompt-tokens", Aliases: []string{"p"}, Value: 0, Usage: "tokens of the prompt in each repetition"},
			&cli.IntFlag{Name: "n", Value: 32, Usage: "tokens fed one by one in each repetition"},
			&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "repetitions"},
			&cli.IntFlag{Name: "warmup", Value: 4, Usage: "tokens fed before, not counted"},
			&cli.BoolFlag{Name: "repack", Usage: "with --les off: allow rearranged weights"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the tokens"},
			jsonFlag(), warmFlag(),
		}, lesFlags()...),
		Action: runBench,
	}
}

// benchOptions are the flags of bench after parsing.
type benchOptions struct {
	session sessionOptions
	shape   benchShape
	slots   []int // to be measured one by one; empty when --les-slots is not given
	seed    uint64
	text    string
}

func parseBench(c *cli.Context) (opts benchOptions, err error) {
	err = errors.Join(noArguments(c), checkCounts(c, "n", "threads", "ubatch", "repetitions"), checkReport(c))
	if err != nil {
		return opts, err
	}
	for _, name := range []string{"prompt-tokens", "warmup"} {
		if c.Int(name) < 0 || c.Int(name) > countsMax {
			return opts, usagef("--%s: %d is not between 0 and %d", name, c.Int(name), countsMax)
		}
	}
	if c.IsSet("file") && c.IsSet("seed") {
		return opts, usagef("--file and --seed contradict: a text has its own tokens")
	}
	les, slots, err := parseLES(c)
	if err != nil {
		return opts, err
	}
	if c.Bool("repack") && les.mode != lesOff {
		return opts, usagef("--repack needs --les off: streamed experts are never rearranged")
	}
	opts = benchOptions{
		shape: benchShape{c.Int("warmup"), c.Int("repetitions"), c.Int("prompt-tokens"), c.Int("n")},
		slots: slots, seed: c.Uint64("seed"), text: c.String("file"),
	}
	warmFile, err := parseWarm(c, les, slots)
	if err != nil {
		return opts, err
	}
	opts.session = sessionOptions{
		warm:     warmFile,
		les:      les,
		resident: llama.ModelParams{LoadMode: llama.LoadRead, Repack: c.Bool("repack")},
		context: llama.ContextParams{
			Tokens: max(opts.shape.prompt+opts.shape.decode, opts.shape.warmup), Batch: c.Int("ubatch"),
			Ubatch: c.Int("ubatch"), Seqs: 1, Threads: c.Int("threads"),
		},
		line: newProgressLine(c.App.ErrWriter),
		log:  c.App.ErrWriter,
	}
	opts.session.path, err = modelPath(c)
	return opts, err
}

func runBench(c *cli.Context) error {
	opts, err := parseBench(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt)
	defer stop()
	var sweep benchSweep
	for i := range max(1, len(opts.slots)) {
		if len(opts.slots) > 0 {
			opts.session.les.slots = opts.slots[i]
		}
		report, err := measure(ctx, c.App.ErrWriter, opts)
		if err != nil {
			return err
		}
		report.print(c.App.Writer)
		sweep.Sweep = append(sweep.Sweep, report)
	}
	var report any = sweep.Sweep[0]
	if len(opts.slots) > 1 {
		sweep.print(c.App.Writer)
		report = sweep
	}
	if name := c.String("json"); name != "" {
		return writeJSON(name, report)
	}
	return nil
}

// measure opens the model and runs all repetitions.
func measure(ctx context.Context, log io.Writer, opts benchOptions) (report benchReport, err error) {
	begin := time.Now()
	s, err := openSession(ctx, opts.session)
	if err != nil {
		return report, err
	}
	defer s.Close()
	loaded := time.Since(begin)
	s.describe(log)
	b := &benchmark{session: s, batch: llama.NewBatch(s.lctx.Batch()), tokens: newTokenSource(opts.seed, s.model.VocabSize())}
	defer b.batch.Close()
	if opts.text != "" {
		if b.tokens, err = newTextTokens(s.model, opts.text, opts.shape); err != nil {
			return report, err
		}
	}
	if err := b.run(ctx, opts.shape); err != nil {
		return report, err
	}
	if err := s.warm.save(); err != nil {
		return report, err
	}
	return benchReport{
		Model: opts.session.path, Architecture: s.model.Architecture(), Threads: s.lctx.Threads(),
		UbatchTokens: s.lctx.Ubatch(), PromptTokens: opts.shape.prompt, DecodeTokens: opts.shape.decode,
		Seed: opts.seed, Text: opts.text, LoadSeconds: loaded.Seconds(),
		Prefill: newSpread(b.prefill), Decode: newSpread(b.decode), PeakRSSBytes: peakMemory(),
		engineSummary: s.engineSummary(b.decodeStats, b.prefillStats, opts.shape.decode*opts.shape.repetitions),
	}, nil
}
