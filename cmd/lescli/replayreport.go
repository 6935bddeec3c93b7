package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/trace"
)

// replayReport is what replay reports.
type replayReport struct {
	File       string       `json:"file"`
	Model      string       `json:"model"`       // what was recorded
	Tokens     int          `json:"tokens"`      // of the recording
	Skipped    int          `json:"skipped"`     // of them not counted
	Layers     int          `json:"layers"`      // streamed layers
	Experts    int          `json:"experts"`     // of all layers
	TokenBytes int64        `json:"token_bytes"` // experts of one token
	Counts     []replayLine `json:"counts"`      // without lookahead
	Runs       []replayRun  `json:"runs"`        // on the virtual clock
	Device     *deviceLine  `json:"device"`      // null without --bandwidth
}

// replayLine is what a policy hits at one size.
type replayLine struct {
	SlotsPerLayer float64  `json:"slots_per_layer"` // above the floor
	Slots         int      `json:"slots"`           // the pool
	Policy        string   `json:"policy"`
	HitRate       float64  `json:"hit_rate"`        // one pool for all layers
	SharesHitRate *float64 `json:"shares_hit_rate"` // the slots divided between the layers; null unless asked for
	BytesPerToken float64  `json:"bytes_per_token"` // read by the one pool
}

// replayRun is what a run with one policy and lookahead took.
type replayRun struct {
	SlotsPerLayer   float64 `json:"slots_per_layer"`
	Slots           int     `json:"slots"`
	Policy          string  `json:"policy"`
	Guesses         int     `json:"guesses"` // acted on, a layer
	HitRate         float64 `json:"hit_rate"`
	JoinRate        float64 `json:"join_rate"`
	MissRate        float64 `json:"miss_rate"`
	BytesPerToken   float64 `json:"bytes_per_token"`
	StallMSPerToken float64 `json:"stall_ms_per_token"`
	TPS             float64 `json:"tps"`
	AllHitsTPS      float64 `json:"all_hits_tps"`         // without any read
	PerfectTPS      float64 `json:"perfect_prefetch_tps"` // the reads without lookahead, all of them early enough
}

// deviceLine is the device of the virtual clock.
type deviceLine struct {
	BytesPerSecond int64   `json:"bytes_per_second"`
	LatencyUS      float64 `json:"latency_us"`
	Lanes          int     `json:"lanes"`
	ComputeUS      float64 `json:"compute_us"` // of a layer and token
}

func newReplayReport(rec *trace.Recording, opts replayOptions) *replayReport {
	r := &replayReport{
		Model: rec.Model, Tokens: rec.Tokens(), Skipped: opts.skip, Layers: len(rec.Layers), Experts: rec.Experts(),
		Counts: []replayLine{}, Runs: []replayRun{},
	}
	for _, layer := range rec.Layers {
		r.TokenBytes += int64(layer.Used) * layer.Bytes()
	}
	if d := opts.device; opts.timed {
		r.Device = &deviceLine{d.BytesPerSecond, microseconds(d.Latency), d.Lanes, microseconds(d.Compute)}
	}
	return r
}

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// add replays one size and policy.
func (r *replayReport) add(rec *trace.Recording, line replayLine, opts replayOptions) error {
	counts, err := sim.Count(rec, line.Policy, line.Slots, opts.skip)
	if err != nil {
		return err
	}
	line.HitRate, line.BytesPerToken = counts.HitRate(), float64(counts.Bytes)/float64(counts.Tokens)
	if opts.shares && line.Slots >= r.Layers {
		shares, err := sim.CountShares(rec, line.Policy, line.Slots, opts.skip)
		if err != nil {
			return err
		}
		rate := shares.HitRate()
		line.SharesHitRate = &rate
	}
	r.Counts = append(r.Counts, line)
	for _, guesses := range opts.guesses {
		if opts.timed {
			if err := r.addRun(rec, line, counts, guesses, opts); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *replayReport) addRun(rec *trace.Recording, line replayLine, counts sim.Counts, guesses int, opts replayOptions) error {
	run, err := sim.Run(rec, line.Policy, line.Slots, guesses, opts.skip, opts.device)
	if err != nil {
		return err
	}
	ceilings, lookups, tokens := sim.CeilingsOf(rec, opts.device, counts), float64(run.Lookups.Lookups), float64(run.Tokens)
	r.Runs = append(r.Runs, replayRun{
		SlotsPerLayer: line.SlotsPerLayer, Slots: line.Slots, Policy: line.Policy, Guesses: guesses,
		HitRate: float64(run.Lookups.Hits) / lookups, JoinRate: float64(run.Lookups.Joins) / lookups, MissRate: float64(run.Lookups.Misses) / lookups,
		BytesPerToken: float64(run.Bytes) / tokens, StallMSPerToken: run.Stall.Seconds() * 1000 / tokens, TPS: run.TokensPerSecond(),
		AllHitsTPS: ceilings.AllHits, PerfectTPS: ceilings.PerfectPrefetch,
	})
	return nil
}

func (r *replayReport) print(out io.Writer) {
	fmt.Fprintf(out, "%s: %d tokens of %s, %d layers, %d experts; a token uses %s; the first %d tokens are not counted\n",
		r.File, r.Tokens, r.Model, r.Layers, r.Experts, formatSize(r.TokenBytes), r.Skipped)
	r.printCounts(out, "hits without lookahead, one pool", func(l replayLine) *float64 { return &l.HitRate })
	if slices.ContainsFunc(r.Counts, func(l replayLine) bool { return l.SharesHitRate != nil }) {
		r.printCounts(out, "hits without lookahead, an even share for each layer", func(l replayLine) *float64 { return l.SharesHitRate })
	}
	if r.Device != nil {
		r.printRuns(out)
	}
}

// printCounts is a table of sizes against policies.
func (r *replayReport) printCounts(out io.Writer, title string, rate func(replayLine) *float64) {
	fmt.Fprintf(out, "\n%s\n%11s %7s %7s", title, "slots/layer", "slots", "cached")
	for _, l := range r.Counts {
		if l.Slots != r.Counts[0].Slots {
			break
		}
		fmt.Fprintf(out, " %9s", l.Policy)
	}
	for i, l := range r.Counts {
		if i == 0 || l.Slots != r.Counts[i-1].Slots {
			fmt.Fprintf(out, "\n%11.2f %7d %6.1f%%", l.SlotsPerLayer, l.Slots, 100*float64(l.Slots)/float64(r.Experts))
		}
		fmt.Fprintf(out, " %9s", percent(rate(l)))
	}
	fmt.Fprintln(out)
}

func (r *replayReport) printRuns(out io.Writer) {
	d := r.Device
	fmt.Fprintf(out, "\non a device of %s/s, latency %.0f us, %d lanes, %.0f us a layer and token\n",
		formatSize(d.BytesPerSecond), d.LatencyUS, d.Lanes, d.ComputeUS)
	fmt.Fprintf(out, "%11s %7s %9s %7s %8s %8s %8s %12s %9s %9s %9s %9s\n", "slots/layer", "slots", "policy", "guesses",
		"hit", "join", "miss", "bytes/token", "stall ms", "tok/s", "all hits", "perfect")
	for _, l := range r.Runs {
		fmt.Fprintf(out, "%11.2f %7d %9s %7d %8s %8s %8s %12s %9.2f %9.2f %9.2f %9.2f\n", l.SlotsPerLayer, l.Slots, l.Policy, l.Guesses,
			percent(&l.HitRate), percent(&l.JoinRate), percent(&l.MissRate), formatSize(int64(l.BytesPerToken)), l.StallMSPerToken,
			l.TPS, l.AllHitsTPS, l.PerfectTPS)
	}
}
