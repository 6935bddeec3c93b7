package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
)

func benchCommand() *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "measure speed with fed tokens",
		Description: "Feeds tokens instead of drawing them, so that all arms route the same experts " +
			"whatever their settings are: those of a text, or pseudo-random ones. Each round has " +
			"its own tokens and starts with an empty context. Several arms, from --sweep or the " +
			"other lists, are measured in turn, each in a process of its own.",
		Flags:  slices.Concat(benchFlags(), armFlags(), ladderFlags(), benchDraftFlags(), lesFlags()),
		Action: runBench,
	}
}

// benchFlags are what all arms have in common.
func benchFlags() []cli.Flag {
	return []cli.Flag{
		modelFlag(), threadsFlag(), ubatchFlag(),
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "feed the tokens of this text instead of random ones"},
		&cli.StringFlag{Name: "prompt-tokens", Aliases: []string{"p", "prefill"}, Value: "0", Usage: "tokens of the prompt in each round, or a list: an arm for each"},
		&cli.IntFlag{Name: "n", Value: 32, Usage: "tokens fed one by one in each round"},
		&cli.IntFlag{Name: "repetitions", Aliases: []string{"r"}, Value: 5, Usage: "rounds: samples of each arm"},
		&cli.IntFlag{Name: "warmup", Value: 4, Usage: "tokens fed in each process before, not counted"},
		&cli.BoolFlag{Name: "repack", Usage: "with --les off: allow rearranged weights"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the tokens"},
		&cli.BoolFlag{Name: "les-ready-first", Value: true, Usage: "compute each expert as it comes; false waits for all of a layer"},
		jsonFlag(), warmFlag(),
		&cli.StringFlag{Name: "html", Usage: "write the report with plots to this file: one page that needs nothing else"},
	}
}

// armFlags make several arms.
func armFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "sweep", Usage: "NAME=VALUE,VALUE: an arm for each value of " + sweepNames() + "; slots and budget may be off: everything resident"},
		&cli.StringFlag{Name: "memory", Usage: "run arms that read in a memory control group of this size, page cache included (root)"},
		&cli.StringFlag{Name: "bandwidth", Usage: "limits of reads from the device a second, like none,1G,0.5G, at least 1M: an arm for each (root)"},
		&cli.StringFlag{Name: "stock", Usage: "an unpatched llama-bench, for arms to compare with"},
		&cli.StringFlag{Name: "stock-load", Value: "mmap", Usage: "its load modes: mmap, none or both"},
		&cli.IntFlag{Name: "stock-n", Usage: "tokens it generates", DefaultText: "as -n"},
		&cli.StringFlag{Name: "processes", Value: processesAuto, Usage: "a process for each arm, for each sample, or auto: arm when all fit into memory"},
	}
}

// Values of --processes.
const (
	processesAuto   = "auto"
	processesArm    = "arm"
	processesSample = "sample"
)

// benchOptions are the flags of bench after parsing.
type benchOptions struct {
	arms      []benchArm
	rounds    int
	processes string
	stock     stockOptions
	ladder    ladder
	slotsFlag string // flag whose arms differ in slots, empty without one
	streaming string // flag whose arms differ in how they stream, empty without one
	verbose   bool
}

func parseBench(c *cli.Context) (opts benchOptions, err error) {
	err = errors.Join(noArguments(c), checkCounts(c, "threads", "ubatch", "repetitions"), checkFlagsNamed(c, "file"), checkReport(c))
	if err != nil {
		return opts, err
	}
	if c.IsSet("file") && c.IsSet("seed") {
		return opts, usagef("--file (-f) and --seed contradict: a text has its own tokens")
	}
	opts = benchOptions{rounds: c.Int("repetitions"), processes: c.String("processes"), verbose: c.Bool("verbose")}
	if !slices.Contains([]string{processesAuto, processesArm, processesSample}, opts.processes) {
		return opts, usagef("--processes: %q is neither auto, arm nor sample", opts.processes)
	}
	if opts.stock, err = parseStockFlags(c); err != nil {
		return opts, err
	}
	base, values, err := parseBase(c)
	if err != nil {
		return opts, err
	}
	if opts.ladder, err = parseLadder(c); err != nil {
		return opts, err
	}
	opts.slotsFlag, opts.streaming = slotsFlag(opts.ladder, values), streamingFlag(opts.ladder, values)
	if err = checkSlotsFlag(c, opts); err != nil {
		return opts, err
	}
	opts.arms, err = parseArms(c, base, values, opts)
	return opts, err
}

// parseBase reads the settings that all arms start from, and the values of
// those that vary.
func parseBase(c *cli.Context) (base benchArm, values sweepValues, err error) {
	for _, name := range []string{"n", "warmup", "stock-n"} {
		if c.Int(name) < 0 || c.Int(name) > countsMax {
			return base, nil, usagef("%s: %d is not between 0 and %d", dashed(name), c.Int(name), countsMax)
		}
	}
	les, err := parseLES(c)
	if err != nil {
		return base, nil, err
	}
	warmFile, err := parseWarm(c, les)
	if err != nil {
		return base, nil, err
	}
	if c.Bool("repack") && les.mode != lesOff {
		return base, nil, usagef("--repack needs --les off: streamed experts are never rearranged")
	}
	if c.IsSet("les-ready-first") && les.mode == lesOff {
		return base, nil, usagef("--les off and --les-ready-first contradict")
	}
	base.benchSettings = benchSettings{
		Mode: les.mode, BudgetBytes: les.budgetBytes, Slots: les.slots, Lookahead: les.lookahead, Lanes: les.lanes,
		WholeLayers: !c.Bool("les-ready-first"), Repack: c.Bool("repack"),
		Threads: c.Int("threads"), Ubatch: c.Int("ubatch"), Warmup: c.Int("warmup"), Decode: c.Int("n"),
		Warm: warmFile, AnswerTemp: c.Float64("draft-temp"), Rounds: c.Int("repetitions"), Seed: c.Uint64("seed"), Text: c.String("file"),
	}
	if values, err = parseValues(c); err != nil {
		return base, nil, err
	}
	if prompts := values["prompt"]; len(prompts) == 1 {
		base.Prompt, _ = strconv.Atoi(prompts[0])
		delete(values, "prompt")
	}
	base.Model, err = modelPath(c)
	return base, values, err
}

// parseValues reads all flags that are lists.
func parseValues(c *cli.Context) (sweepValues, error) {
	values, err := parseSweep(c.StringSlice("sweep"))
	if err != nil {
		return nil, err
	}
	for _, taken := range []struct{ flag, name string }{{"prompt-tokens", "prompt"}, {"bandwidth", "bandwidth"}} {
		if values[taken.name] != nil {
			return nil, usagef("--sweep: %s is what --%s is for", taken.name, taken.flag)
		}
	}
	for _, text := range strings.Split(c.String("prompt-tokens"), ",") {
		text = strings.TrimSpace(text)
		tokens, err := strconv.Atoi(text)
		if err != nil || tokens < 0 || tokens > countsMax {
			return nil, usagef("--prompt-tokens (-p): %q is not a number between 0 and %d", text, countsMax)
		}
		if tokens+c.Int("n") == 0 {
			return nil, usagef("-n: 0 and --prompt-tokens (-p): 0 leave nothing to measure")
		}
		values["prompt"] = append(values["prompt"], text)
	}
	if c.IsSet("bandwidth") {
		for _, text := range strings.Split(c.String("bandwidth"), ",") {
			text = strings.TrimSpace(text)
			if _, err := parseBandwidth(text); err != nil {
				return nil, err
			}
			values["bandwidth"] = append(values["bandwidth"], text)
		}
	}
	return values, nil
}

// parseArms makes the arms and puts them into their limits.
func parseArms(c *cli.Context, base benchArm, values sweepValues, opts benchOptions) (arms []benchArm, err error) {
	var memory int64
	if c.IsSet("memory") {
		if memory, err = parseSize("memory", c.String("memory")); err != nil {
			return nil, err
		}
	}
	bases := []benchArm{base}
	if opts.ladder.on {
		bases = opts.ladder.arms(base)
	}
	if arms, err = values.arms(bases); err != nil {
		return nil, err
	}
	arms = opts.stock.arms(arms)
	drafts, err := parseDraftArms(c)
	if err != nil {
		return nil, err
	}
	if base.Warm != "" && (len(arms) > 1 || drafts.draft != nil || c.String("processes") == processesSample) {
		return nil, usagef("--%s and several arms or processes contradict: each would warm the next", warmFlagName)
	}
	limitMemory(arms, memory)
	nameArms(arms)
	arms = drafts.of(arms)
	return arms, limitDevices(arms)
}

func parseStockFlags(c *cli.Context) (opts stockOptions, err error) {
	if !c.IsSet("stock") {
		for _, name := range []string{"stock-load", "stock-n"} {
			if c.IsSet(name) {
				return opts, usagef("--%s needs --stock", name)
			}
		}
		return opts, nil
	}
	opts.decode = c.Int("stock-n")
	for _, load := range strings.Split(c.String("stock-load"), ",") {
		load = strings.TrimSpace(load)
		if !slices.Contains(stockLoads, load) {
			return opts, usagef("--stock-load: %q is not one of %s", load, strings.Join(stockLoads, ", "))
		}
		opts.loads = append(opts.loads, load)
	}
	if opts.program, err = exec.LookPath(c.String("stock")); err != nil {
		return opts, fmt.Errorf("--stock: %w", err)
	}
	return opts, nil
}

func runBench(c *cli.Context) error {
	opts, err := parseBench(c)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	return measureArms(ctx, c, opts)
}

// measureArms measures and reports.
func measureArms(ctx context.Context, c *cli.Context, opts benchOptions) error {
	run, err := newBenchRun(ctx, c.App.ErrWriter, opts)
	if err != nil {
		return err
	}
	if err := run.run(); err != nil {
		return err
	}
	report := run.report()
	report.print(c.App.Writer)
	if name := c.String("json"); name != "" {
		err = writeJSON(name, report)
	}
	if name := c.String("html"); name != "" {
		err = errors.Join(err, writeBenchHTML(name, report))
	}
	return err
}
