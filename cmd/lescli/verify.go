package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

func verifyCommand() *cli.Command {
	return &cli.Command{
		Name:  "verify",
		Usage: "compare streamed with resident, every logit, bit for bit",
		Description: "Feeds the same pseudo-random tokens in the same batches to the model with all " +
			"experts resident (plain CPU buffers) and streamed, in every combination of the " +
			"listed values. Lists are separated by commas. Exits 1 at the first difference, and where nothing can be streamed.",
		Flags: []cli.Flag{
			modelFlag(),
			adapterFlag(),
			&cli.StringSliceFlag{Name: "les-slots", Value: cli.NewStringSlice("floor"), Usage: "expert slots a layer: numbers, floor, all, or resident to check the check"},
			&cli.StringSliceFlag{Name: "les-lookahead", Value: cli.NewStringSlice("1"), Usage: "layers read ahead"},
			&cli.StringSliceFlag{Name: "threads", Aliases: []string{"t"}, Value: cli.NewStringSlice("2"), Usage: "compute threads"},
			&cli.StringSliceFlag{Name: "ubatch", Aliases: []string{"ub"}, Value: cli.NewStringSlice("512"), Usage: "tokens computed at once"},
			&cli.StringSliceFlag{Name: "prompt-tokens", Value: cli.NewStringSlice("32"), Usage: "tokens of the prompt"},
			&cli.IntFlag{Name: "gen", Value: 16, Usage: "tokens fed one by one after the prompt"},
			&cli.IntFlag{Name: "seqs", Value: 1, Usage: "sequences in each batch"},
			&cli.DurationFlag{Name: "resize", Usage: "change the number of slots of streamed runs at random, again and again after a random time up to this"},
			&cli.DurationFlag{Name: "read-delay", Usage: "hold each read back by a random time up to this"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the tokens"},
			jsonFlag(),
		},
		Action: runVerify,
	}
}

// verifyOptions are the flags of verify after parsing.
type verifyOptions struct {
	path       string
	adapter    string
	slots      []int // slotsResident among them
	lookaheads []int
	shapes     []feedShape
	readDelay  time.Duration
	resize     time.Duration // most time between two changes of the number of slots, 0 for none
	seed       uint64
}

// slotsResident stands for a second resident run instead of a streamed one.
const slotsResident = -3

func parseVerify(c *cli.Context) (opts verifyOptions, err error) {
	if err = errors.Join(noArguments(c), checkFlagsNamed(c, "lora"), checkReport(c)); err != nil {
		return opts, err
	}
	for _, text := range c.StringSlice("les-slots") {
		slots := slotsResident
		if text != "resident" {
			if slots, err = parseSlots("les-slots", text); err != nil {
				return opts, err
			}
		}
		opts.slots = append(opts.slots, slots)
	}
	if opts.lookaheads, err = parseInts(c, "les-lookahead", 0); err != nil {
		return opts, err
	}
	if opts.shapes, err = parseShapes(c); err != nil {
		return opts, err
	}
	opts.adapter, opts.readDelay, opts.resize, opts.seed = c.String("lora"), c.Duration("read-delay"), c.Duration("resize"), c.Uint64("seed")
	for _, name := range []string{"read-delay", "resize"} {
		if c.Duration(name) < 0 {
			return opts, usagef("--%s: %v is negative", name, c.Duration(name))
		}
	}
	opts.path, err = modelPath(c)
	return opts, err
}

// parseShapes is every combination of the flags that shape batches.
func parseShapes(c *cli.Context) ([]feedShape, error) {
	gen, seqs := c.Int("gen"), c.Int("seqs")
	if gen < 0 || gen > countsMax {
		return nil, usagef("--gen: %d is not between 0 and %d", gen, countsMax)
	}
	if err := checkCounts(c, "seqs"); err != nil {
		return nil, err
	}
	threads, err := parseInts(c, "threads", 1)
	if err != nil {
		return nil, err
	}
	ubatches, err := parseInts(c, "ubatch", 1)
	if err != nil {
		return nil, err
	}
	prompts, err := parseInts(c, "prompt-tokens", 1)
	if err != nil {
		return nil, err
	}
	var shapes []feedShape
	for _, t := range threads {
		for _, ub := range ubatches {
			for _, prompt := range prompts {
				if prompt+gen > contextTokensMax/seqs {
					return nil, usagef("--prompt-tokens %d and --gen %d of %d sequences are more than %d tokens", prompt, gen, seqs, contextTokensMax)
				}
				shapes = append(shapes, feedShape{threads: t, ubatch: ub, prompt: prompt, gen: gen, seqs: seqs})
			}
		}
	}
	return shapes, nil
}

func runVerify(c *cli.Context) error {
	opts, err := parseVerify(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	dir, err := os.MkdirTemp("", "lescli-verify-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	v := &verifier{opts: opts, out: c.App.Writer, line: newProgressLine(c.App.ErrWriter), log: c.App.ErrWriter, dir: dir}
	file, err := readModelFile(v.opts.path)
	if err != nil {
		return err
	}
	if len(file.layers) == 0 && v.streams() {
		return v.nothing(whyResident(file, lesOptions{}))
	}
	if err := v.record(ctx); err != nil {
		return err
	}
	err = v.compareAll(ctx)
	var diff *difference
	if err != nil && !errors.As(err, &diff) {
		return err
	}
	report := v.report(file.Arch, diff)
	if name := c.String("json"); name != "" {
		err = writeJSON(name, report)
	}
	if diff != nil {
		fmt.Fprintf(c.App.Writer, "DIFFERENT: %v\n", diff)
		return silentError{diff}
	}
	fmt.Fprintf(c.App.Writer, "identical: %d logits compared in %d runs; %s\n", v.compared, v.runs, report.streamed())
	return err
}

// residentParams load everything into plain CPU buffers.
var residentParams = llama.ModelParams{LoadMode: llama.LoadRead, Repack: false}

func (v *verifier) open(ctx context.Context, shape feedShape, les lesOptions) (*session, error) {
	return openSession(ctx, sessionOptions{
		path: v.opts.path, adapter: v.opts.adapter, context: shape.contextParams(), les: les, resident: residentParams, line: v.line, log: v.log,
	})
}
