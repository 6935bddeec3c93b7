package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// tokenCost is what a token cost, mean over all samples.
type tokenCost struct {
	Phase             string  `json:"phase"`              // decode or prefill
	Tokens            int     `json:"tokens"`             // that the means are over
	WallMS            float64 `json:"wall_ms"`            // all of its time
	StallMS           float64 `json:"stall_ms"`           // waiting for bytes of experts, mean over compute threads
	ComputeMS         float64 `json:"compute_ms"`         // a residual: wall - stall
	NodeMS            float64 `json:"node_ms"`            // in MoE nodes, compute thread 0, stalls included
	PredictMS         float64 `json:"predict_ms"`         // in the lookahead, compute thread 0, part of the nodes
	CallbackMS        float64 `json:"callback_ms"`        // in the scheduler, compute thread 0, part of the nodes
	Callbacks         float64 `json:"callbacks"`          // calls into the scheduler
	UserMS            float64 `json:"user_ms"`            // processor time of all threads
	SystemMS          float64 `json:"system_ms"`          // the same in the kernel, reads included
	MajorFaults       float64 `json:"major_faults"`       // pages read because they were touched
	MinorFaults       float64 `json:"minor_faults"`       // pages mapped because they were touched
	VoluntarySwitches float64 `json:"voluntary_switches"` // threads that went to wait
	ForcedSwitches    float64 `json:"forced_switches"`    // threads that were interrupted
	MissedExperts     float64 `json:"missed_experts"`     // routed and not in memory before anything was read for the step
	MissedBytes       float64 `json:"missed_bytes"`       // their bytes, wasted prefetches not included
}

// newTokenCost divides what a phase took by its tokens. A routed expert was
// missed unless it was in memory already: a hit that a prefetch made is a miss
// of the cache. Of the useful prefetches, those in time were counted as hits.
func newTokenCost(name string, phase benchPhase, expertBytes int64) *tokenCost {
	per := func(n int64) float64 { return float64(n) / float64(max(1, phase.Tokens)) }
	perMS := func(ns int64) float64 { return per(ns) / float64(time.Millisecond) }
	s, u, total := phase.Stats, phase.Usage, phase.Stats.total()
	missed := total.Misses + total.Joins + s.Useful - s.Late
	cost := &tokenCost{
		Phase: name, Tokens: phase.Tokens,
		WallMS: 1000 * phase.Seconds / float64(max(1, phase.Tokens)), StallMS: perMS(s.StallNS), NodeMS: perMS(s.NodesNS),
		PredictMS: perMS(s.PredictNS), CallbackMS: perMS(s.CallbackNS), Callbacks: per(s.Callbacks),
		UserMS: perMS(u.UserNS), SystemMS: perMS(u.SystemNS), MajorFaults: per(u.MajorFaults), MinorFaults: per(u.MinorFaults),
		VoluntarySwitches: per(u.VoluntarySwitches), ForcedSwitches: per(u.ForcedSwitches),
		MissedExperts: per(missed), MissedBytes: per(missed * expertBytes),
	}
	cost.ComputeMS = cost.WallMS - cost.StallMS
	return cost
}

func (c *tokenCost) print(out io.Writer) {
	fmt.Fprintf(out, "a token: %.2f ms, of them stall %.2f, MoE nodes %.2f, lookahead %.3f, scheduler %.3f; processors %.2f user, %.2f system; "+
		"%.1f major faults, %.1f switches\n",
		c.WallMS, c.StallMS, c.NodeMS, c.PredictMS, c.CallbackMS, c.UserMS, c.SystemMS, c.MajorFaults, c.VoluntarySwitches+c.ForcedSwitches)
}

// roofline is the best that an arm could do: the time of a token with all
// experts in memory, or that of reading what it missed, whichever is longer.
type roofline struct {
	Resident   string  `json:"resident"`         // the arm that has all experts in memory
	ResidentMS float64 `json:"resident_ms"`      // a token of that arm: all hits
	Bandwidth  float64 `json:"bytes_per_second"` // of plain reads in the same run
	ReadMS     float64 `json:"read_ms"`          // missed bytes / bandwidth
	Speed      float64 `json:"tps"`              // ceiling: perfect prefetch with this cache
	Reached    float64 `json:"reached"`          // speed / ceiling
	Doubt      string  `json:"doubt"`            // what is wrong with the ceiling where more than it was reached
}

// aboveCeiling is what is reached where the ceiling is in doubt: a little more than all
// of it comes by rounding, and by chance.
const aboveCeiling = 1.005

// roofline compares an arm with the resident one of the same shape and with
// the bandwidth under its limit. It is nil where there is nothing to compare.
func (r *benchRun) roofline(report *benchReport, at int) *roofline {
	arm, flash := &report.Arms[at], r.flashOf(r.arms[at])
	reference := r.reference(report, at)
	if reference == nil || flash == nil || arm.Cost == nil || arm.LES == "off" {
		return nil
	}
	line := &roofline{
		Resident: reference.Name, ResidentMS: 1000 / reference.speed().Median, Bandwidth: flash.bandwidth().Median,
	}
	line.ReadMS = 1000 * arm.Cost.MissedBytes / line.Bandwidth
	line.Speed = 1000 / max(line.ResidentMS, line.ReadMS)
	line.Reached = arm.speed().Median / line.Speed
	if line.Reached >= aboveCeiling {
		line.Doubt = line.doubt(arm, reference, flash)
	}
	return line
}

// doubt says which measurement the ceiling has from a bad moment: that of the arm with
// all experts in memory, or that of the flash.
func (l *roofline) doubt(arm, reference *armReport, flash *flashRun) string {
	if l.ReadMS <= l.ResidentMS {
		s := reference.speed()
		return fmt.Sprintf("%s, with all experts in memory, was slower (%.3f to %.3f tok/s): it was disturbed", reference.Name, s.Min, s.Max)
	}
	reason := "it was measured in a bad moment, or a cache below the file system holds the file"
	if !flash.results[len(flash.results)-1].Direct {
		reason = "direct reads are refused, and the page cache holds the file"
	}
	s := flash.bandwidth()
	return fmt.Sprintf("missed experts came at %s/s, more than the flash gave (%s to %s): %s", formatSize(int64(arm.Cost.MissedBytes*arm.speed().Median)),
		formatSize(int64(s.Min)), formatSize(int64(s.Max)), reason)
}

// reference is the arm with all experts in slots, else the one without
// streaming, fed the same way; best with the same file.
func (r *benchRun) reference(report *benchReport, at int) *armReport {
	arm := &report.Arms[at]
	order := func(i int) int {
		other := &report.Arms[i]
		switch {
		case other.Stock != "" || !r.arms[i].resident() || other.speed().Median <= 0,
			other.Threads != arm.Threads, other.PromptTokens != arm.PromptTokens, other.UbatchTokens != arm.UbatchTokens:
			return 0
		case other.LES == "on" && other.Model == arm.Model:
			return 4
		case other.Model == arm.Model:
			return 3
		case other.LES == "on":
			return 2
		}
		return 1
	}
	ranks := make([]int, len(report.Arms))
	for i := range ranks {
		ranks[i] = order(i)
	}
	best := slices.Index(ranks, slices.Max(ranks))
	if ranks[best] == 0 {
		return nil
	}
	return &report.Arms[best]
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
