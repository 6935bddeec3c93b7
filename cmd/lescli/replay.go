package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/trace"
	"github.com/urfave/cli/v2"
)

func replayCommand() *cli.Command {
	return &cli.Command{
		Name:      "replay",
		Usage:     "try eviction policies, slots and lookahead on recorded routes",
		ArgsUsage: "FILE",
		Description: "Replays a file of lescli trace. Prints hit rates without lookahead for each number " +
			"of slots and policy; with --bandwidth also what a run would take on such a device, " +
			"by the real scheduler on a virtual clock. No model is needed.",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "slots", Value: cli.NewStringSlice("0", "1", "2", "4", "8", "16"), Usage: "expert slots a layer above the floor: numbers, floor (0) or all"},
			&cli.StringSliceFlag{Name: "policy", Value: cli.NewStringSlice(sim.Policies()...), Usage: "eviction policies: lru, lfu, lfru, opt (knows the future), lfru:H (half-life of H steps)"},
			&cli.BoolFlag{Name: "shares", Usage: "also divide the slots evenly between the layers"},
			&cli.IntFlag{Name: "skip", Value: 32, Usage: "tokens replayed first that are not counted"},
			&cli.StringFlag{Name: "bandwidth", Usage: "bytes a second of a device, like 1G (units are powers of 1024)"},
			&cli.DurationFlag{Name: "latency", Value: 100 * time.Microsecond, Usage: "of one read"},
			&cli.IntFlag{Name: "lanes", Value: sched.LanesDefault, Usage: "reads in flight"},
			&cli.DurationFlag{Name: "compute", Usage: "time of one layer and token", DefaultText: "as recorded, median"},
			&cli.StringSliceFlag{Name: "guesses", Usage: "guesses of a layer that are acted on; 0 for no lookahead (default: 0 and as many as a token uses)"},
			jsonFlag(),
		},
		Action: runReplay,
	}
}

// replayOptions are the flags of replay after parsing.
type replayOptions struct {
	slots    []int
	policies []string
	shares   bool
	skip     int
	guesses  []int // empty for the default
	timed    bool
	device   sim.Device // Compute is 0 for what was recorded
}

func parseReplay(c *cli.Context) (opts replayOptions, err error) {
	opts = replayOptions{policies: c.StringSlice("policy"), shares: c.Bool("shares"), skip: c.Int("skip"), timed: c.IsSet("bandwidth")}
	if opts.slots, err = parseSlotsList("slots", c.StringSlice("slots")); err != nil {
		return opts, err
	}
	index := expert.NewIndex(expert.Geometry{Layers: []expert.Layer{{Experts: 1}}})
	for _, policy := range opts.policies {
		if _, err := sim.NewPolicy(policy, 1, index, nil); err != nil {
			return opts, usagef("--policy: %w", err)
		}
	}
	if opts.skip < 0 {
		return opts, usagef("--skip: %d is negative", opts.skip)
	}
	for _, name := range []string{"latency", "lanes", "compute", "guesses"} {
		if c.IsSet(name) && !opts.timed {
			return opts, usagef("--%s is of no use without --bandwidth", name)
		}
	}
	if opts.timed {
		err = opts.parseDevice(c)
	}
	return opts, err
}

// deviceTimeMax and deviceBandwidthMin bound a device: sums of far longer times
// would not fit the virtual clock.
const (
	deviceTimeMax      = time.Hour
	deviceBandwidthMin = 1 << 20
)

// parseDevice reads what --bandwidth makes use of.
func (opts *replayOptions) parseDevice(c *cli.Context) (err error) {
	for _, name := range []string{"latency", "compute"} {
		if c.Duration(name) > deviceTimeMax {
			return usagef("--%s: %v is more than %v", name, c.Duration(name), deviceTimeMax)
		}
	}
	opts.device = sim.Device{Latency: c.Duration("latency"), Lanes: c.Int("lanes"), Compute: c.Duration("compute")}
	if opts.device.BytesPerSecond, err = parseSize("bandwidth", c.String("bandwidth")); err != nil {
		return err
	}
	if opts.device.BytesPerSecond < deviceBandwidthMin {
		return usagef("--bandwidth: %s is less than 1M", c.String("bandwidth"))
	}
	if opts.guesses, err = parseInts(c, "guesses", 0); err != nil {
		return err
	}
	check := opts.device
	if !c.IsSet("compute") {
		check.Compute = 1 // of the recording
	}
	if err := check.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

func runReplay(c *cli.Context) error {
	path, err := onePath(c, "FILE")
	if err != nil {
		return err
	}
	opts, err := parseReplay(c)
	if err = errors.Join(err, checkReport(c)); err != nil {
		return err
	}
	rec, err := readRecording(path)
	if err != nil {
		return err
	}
	if opts.skip >= rec.Tokens() {
		return fmt.Errorf("%s: has %d tokens, --skip %d leaves none to count", path, rec.Tokens(), opts.skip)
	}
	if opts.timed && opts.device.Compute == 0 {
		if opts.device.Compute = recordedCompute(rec); opts.device.Compute == 0 {
			return fmt.Errorf("%s: has no times of steps of one token; give --compute", path)
		}
	}
	report, err := replay(rec, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	report.File = path
	report.print(c.App.Writer)
	if name := c.String("json"); name != "" {
		return writeJSON(name, report)
	}
	return nil
}

func readRecording(path string) (*trace.Recording, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	rec, err := trace.Read(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rec, nil
}

// recordedCompute is the median time from one layer to the next in steps of one
// token. It contains the stalls of the recording.
func recordedCompute(rec *trace.Recording) time.Duration {
	var times []int64
	before := trace.Set{Layer: -1}
	for _, s := range rec.Sets {
		if s.Guessed {
			continue
		}
		if s.Tokens == 1 && before.Tokens == 1 && s.Layer == before.Layer+1 {
			times = append(times, s.TimeNS-before.TimeNS)
		}
		before = s
	}
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return time.Duration(times[len(times)/2])
}

// replay makes the report.
func replay(rec *trace.Recording, opts replayOptions) (*replayReport, error) {
	shape, report := shapeOf(rec), newReplayReport(rec, opts)
	if len(opts.guesses) == 0 {
		opts.guesses = []int{0, shape.Used}
	}
	for _, slots := range opts.slots {
		if slots == slotsAll {
			slots = shape.Experts
		}
		planned, err := plan.Make(shape, plan.Usage{}, plan.Request{SlotsPerLayer: slots})
		if err != nil {
			return nil, err
		}
		for _, policy := range opts.policies {
			line := replayLine{SlotsPerLayer: planned.SlotsPerLayer(), Slots: planned.SlotCount, Policy: policy}
			if err := report.add(rec, line, opts); err != nil {
				return nil, err
			}
		}
	}
	return report, nil
}

// shapeOf is the shape of a recorded model for the plan.
func shapeOf(rec *trace.Recording) plan.Shape {
	s := plan.Shape{Layers: len(rec.Layers), All: rec.Experts()}
	for _, layer := range rec.Layers {
		s.Experts, s.Used = max(s.Experts, layer.Experts), max(s.Used, layer.Used)
	}
	return s
}
