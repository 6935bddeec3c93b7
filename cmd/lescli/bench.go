package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure speed with fed tokens",
		Description: "Feeds pseudo-random tokens instead of drawing them, so that runs with the same\n" +
			"seed route the same experts, whatever the --les-* flags are. Each repetition has\n" +
			"its own tokens and starts with an empty context.",
		Flags: append([]cli.Flag{
			modelFlag(), threadsFlag(), ubatchFlag(),
			&cli.IntFlag{Name: "prompt-tokens", Aliases: []string{"p"}, Value: 0, Usage: "tokens of the prompt in each repetition"},
			&cli.IntFlag{Name: "n", Value: 32, Usage: "tokens fed one by one in each repetition"},
			&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "repetitions"},
			&cli.IntFlag{Name: "warmup", Value: 4, Usage: "tokens fed before, not counted"},
			&cli.BoolFlag{Name: "repack", Usage: "with --les off: allow rearranged weights"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the tokens"},
			jsonFlag(),
		}, lesFlags()...),
		Action: runBench,
	}
}

// benchReport is what bench reports; engine figures are of the decode phases
// of all repetitions.
type benchReport struct {
	Model        string  `json:"model"`         // file
	Architecture string  `json:"architecture"`  // general.architecture
	Threads      int     `json:"threads"`       // compute threads
	UbatchTokens int     `json:"ubatch_tokens"` // tokens of a prompt computed at once
	PromptTokens int     `json:"prompt_tokens"` // fed in batches, each repetition
	DecodeTokens int     `json:"decode_tokens"` // fed one by one, each repetition
	Seed         uint64  `json:"seed"`          // of the tokens
	LoadSeconds  float64 `json:"load_seconds"`  // until the context was ready
	Prefill      spread  `json:"prefill_tps"`   // tokens a second
	Decode       spread  `json:"decode_tps"`    // tokens a second
	PeakRSSBytes int64   `json:"peak_rss_bytes"`
	engineSummary
}

// spread is the median of samples and their ends.
type spread struct {
	Median  float64   `json:"median"`
	Min     float64   `json:"min"`
	Max     float64   `json:"max"`
	Samples []float64 `json:"samples"`
}

func newSpread(samples []float64) spread {
	if len(samples) == 0 {
		return spread{Samples: []float64{}}
	}
	sorted := slices.Sorted(slices.Values(samples))
	n := len(sorted)
	return spread{
		Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1], Samples: samples,
	}
}

func parseBench(c *cli.Context) (opts sessionOptions, err error) {
	err = errors.Join(noArguments(c), checkCounts(c, "n", "threads", "ubatch", "repetitions"), checkReport(c))
	if err != nil {
		return opts, err
	}
	for _, name := range []string{"prompt-tokens", "warmup"} {
		if c.Int(name) < 0 || c.Int(name) > countsMax {
			return opts, usagef("--%s: %d is not between 0 and %d", name, c.Int(name), countsMax)
		}
	}
	if opts.les, err = parseLES(c); err != nil {
		return opts, err
	}
	if c.Bool("repack") && opts.les.mode != lesOff {
		return opts, usagef("--repack needs --les off: streamed experts are never rearranged")
	}
	opts.resident = llama.ModelParams{LoadMode: llama.LoadRead, Repack: c.Bool("repack")}
	opts.context = llama.ContextParams{
		Tokens: max(c.Int("prompt-tokens")+c.Int("n"), c.Int("warmup")), Batch: c.Int("ubatch"),
		Ubatch: c.Int("ubatch"), Seqs: 1, Threads: c.Int("threads"),
	}
	opts.line = newProgressLine(c.App.ErrWriter)
	opts.path, err = modelPath(c)
	return opts, err
}

func runBench(c *cli.Context) error {
	opts, err := parseBench(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, os.Interrupt)
	defer stop()
	begin := time.Now()
	s, err := openSession(ctx, opts)
	if err != nil {
		return err
	}
	defer s.Close()
	loaded := time.Since(begin)
	s.describe(c.App.ErrWriter)
	b := newBenchmark(s, c.Uint64("seed"))
	defer b.batch.Close()
	if err := b.run(ctx, c.Int("warmup"), c.Int("repetitions"), c.Int("prompt-tokens"), c.Int("n")); err != nil {
		return err
	}
	report := benchReport{
		Model: opts.path, Architecture: s.model.Architecture(), Threads: s.lctx.Threads(),
		UbatchTokens: s.lctx.Ubatch(), PromptTokens: c.Int("prompt-tokens"), DecodeTokens: c.Int("n"),
		Seed: c.Uint64("seed"), LoadSeconds: loaded.Seconds(),
		Prefill: newSpread(b.prefill), Decode: newSpread(b.decode), PeakRSSBytes: peakMemory(),
		engineSummary: s.engineSummary(b.decodeStats, b.prefillStats, c.Int("n")*c.Int("repetitions")),
	}
	report.print(c.App.Writer)
	if name := c.String("json"); name != "" {
		return writeJSON(name, report)
	}
	return nil
}

// benchmark feeds tokens and collects samples.
type benchmark struct {
	session *session
	batch   *llama.Batch
	tokens  *tokenSource

	prefill, decode           []float64 // tokens a second
	prefillStats, decodeStats engineStats
}

func newBenchmark(s *session, seed uint64) *benchmark {
	return &benchmark{
		session: s, batch: llama.NewBatch(s.lctx.Batch()), tokens: newTokenSource(seed, s.model.VocabSize()),
	}
}

func (b *benchmark) run(ctx context.Context, warmup, repetitions, prompt, n int) error {
	if err := b.feed(ctx, 0, warmup, 1); err != nil {
		return err
	}
	for range repetitions {
		b.session.lctx.Clear()
		if prompt > 0 {
			speed, stats, err := b.measure(ctx, 0, prompt, b.session.lctx.Batch())
			if err != nil {
				return err
			}
			b.prefill = append(b.prefill, speed)
			b.prefillStats = b.prefillStats.plus(stats)
		}
		speed, stats, err := b.measure(ctx, prompt, n, 1)
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

func (r *benchReport) print(out io.Writer) {
	row := func(name string, tokens int, s spread) {
		if len(s.Samples) > 0 {
			fmt.Fprintf(out, "%-8s %6d tokens  %9.2f tok/s median  %9.2f min  %9.2f max  %d samples\n",
				name, tokens, s.Median, s.Min, s.Max, len(s.Samples))
		}
	}
	row("prefill", r.PromptTokens, r.Prefill)
	row("decode", r.DecodeTokens, r.Decode)
	fmt.Fprintf(out, "peak memory %s\n", formatSize(r.PeakRSSBytes))
	r.engineSummary.print(out)
}
