package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// benchReport is what bench reports.
type benchReport struct {
	Command   string            `json:"command"`
	Started   string            `json:"started"` // UTC
	Machine   machineReport     `json:"machine"`
	Rounds    int               `json:"rounds"`    // samples of each arm, taken in turn
	Processes string            `json:"processes"` // one for each: arm or sample
	Bandwidth []bandwidthReport `json:"bandwidth"` // of the flash, empty with a single arm
	Arms      []armReport       `json:"arms"`
}

// bandwidthReport is what plain reads of the size of an expert reached, in the
// same rounds as the arms.
type bandwidthReport struct {
	Model      string `json:"model"`
	LimitBytes int64  `json:"limit_bytes"` // the kernel's, a second; 0 for none
	ReadBytes  int64  `json:"read_bytes"`  // of one read
	Depth      int    `json:"depth"`       // reads in flight, the best of several
	Direct     bool   `json:"direct"`      // not through the page cache
	Bandwidth  spread `json:"bytes_per_second"`
}

// armReport is one arm; engine figures are of the decode phases of all
// samples, or of the prompts where nothing was decoded.
type armReport struct {
	Name           string  `json:"name"`
	Stock          string  `json:"stock"`        // load mode when the arm is an unpatched llama-bench
	Model          string  `json:"model"`        // file
	Architecture   string  `json:"architecture"` // general.architecture
	Threads        int     `json:"threads"`      // compute threads
	Lookahead      int     `json:"lookahead"`
	Lanes          int     `json:"lanes"` // reads in flight, 0 for the engine's choice
	ReadyFirst     bool    `json:"ready_first"`
	MemoryBytes    int64   `json:"memory_limit_bytes"`    // of the control group, 0 for none
	BandwidthBytes int64   `json:"bandwidth_limit_bytes"` // a second, 0 for none
	UbatchTokens   int     `json:"ubatch_tokens"`         // tokens of a prompt computed at once
	PromptTokens   int     `json:"prompt_tokens"`         // fed in batches, each sample
	DecodeTokens   int     `json:"decode_tokens"`         // fed one by one, each sample
	WarmupTokens   int     `json:"warmup_tokens"`         // fed before the first sample of a process
	Seed           uint64  `json:"seed"`                  // of the tokens
	Text           string  `json:"text"`                  // file the tokens are from; empty when they are random
	LoadSeconds    float64 `json:"load_seconds"`          // median, until the context was ready
	Prefill        spread  `json:"prefill_tps"`           // tokens a second
	Decode         spread  `json:"decode_tps"`            // tokens a second
	PeakRSSBytes   int64   `json:"peak_rss_bytes"`        // most of all samples
	PeakGroupBytes int64   `json:"peak_group_bytes"`      // of the control group, page cache included; 0 without a limit
	engineSummary
	Cost     *tokenCost `json:"token"`    // null for llama-bench
	Roofline *roofline  `json:"roofline"` // null without a resident arm to compare with
	Draft    *armDraft  `json:"draft"`    // null where no arm drafts
}

// report makes the report of a run.
func (r *benchRun) report() *benchReport {
	report := &benchReport{
		Command: strings.Join(os.Args, " "), Started: r.started.UTC().Format(time.RFC3339), Machine: thisMachine(r.arms[0].Model),
		Rounds: r.rounds, Processes: processesArm, Bandwidth: []bandwidthReport{},
	}
	if r.perSample {
		report.Processes = processesSample
	}
	for _, flash := range r.flash {
		best := flash.results[len(flash.results)-1]
		report.Bandwidth = append(report.Bandwidth, bandwidthReport{
			Model: flash.probe.Paths[0], LimitBytes: flash.limits.bandwidthBytes, ReadBytes: flash.probe.Bytes,
			Depth: best.Depth, Direct: best.Direct, Bandwidth: flash.bandwidth(),
		})
	}
	for _, arm := range r.arms {
		report.Arms = append(report.Arms, arm.report())
	}
	for i := range report.Arms {
		report.Arms[i].Roofline = r.roofline(report, i)
	}
	r.addDrafts(report)
	return report
}

// report puts the samples of an arm together.
func (a *armRun) report() armReport {
	report := armReport{
		Name: a.name, Stock: a.stockLoad, Model: a.Model, Architecture: a.opened.Architecture, Threads: a.opened.Threads,
		Lookahead: a.Lookahead, Lanes: a.Lanes, ReadyFirst: !a.WholeLayers,
		MemoryBytes: a.memoryBytes, BandwidthBytes: a.bandwidthBytes, UbatchTokens: a.opened.Ubatch,
		PromptTokens: a.Prompt, DecodeTokens: a.Decode, WarmupTokens: a.Warmup, Seed: a.Seed, Text: a.Text,
	}
	var loads, prefills, decodes []float64
	var prefill, decode benchPhase
	for _, sample := range a.samples {
		loads = append(loads, sample.LoadSeconds)
		if sample.Prefill.Tokens > 0 {
			prefills, prefill = append(prefills, sample.Prefill.speed()), prefill.plus(sample.Prefill)
		}
		if sample.Decode.Tokens > 0 {
			decodes, decode = append(decodes, sample.Decode.speed()), decode.plus(sample.Decode)
		}
		report.PeakRSSBytes = max(report.PeakRSSBytes, sample.PeakRSSBytes)
		report.PeakGroupBytes = max(report.PeakGroupBytes, sample.PeakGroupBytes)
	}
	report.LoadSeconds, report.Prefill, report.Decode = newSpread(loads).Median, newSpread(prefills), newSpread(decodes)
	phase, name, before := decode, "decode", prefill.Stats
	if phase.Tokens == 0 {
		phase, name, before = prefill, "prefill", engineStats{}
	}
	report.engineSummary = engineSummary{LES: "off", LESReason: a.opened.Reason}
	if a.opened.Streamed {
		report.engineSummary = newEngineSummary(a.opened.Plan, phase.Stats, before, phase.Tokens)
		report.PrefillReadBytes = prefill.Stats.BytesDemand + prefill.Stats.BytesPrefetch
	}
	if a.stockLoad == "" {
		report.Cost = newTokenCost(name, phase, a.opened.Plan.ExpertBytes)
	}
	return report
}

// speed is of the tokens fed one by one, or of the prompt without any.
func (a *armReport) speed() spread {
	if a.DecodeTokens > 0 {
		return a.Decode
	}
	return a.Prefill
}

// print writes the report for people.
func (r *benchReport) print(out io.Writer) {
	if len(r.Arms) == 1 {
		r.Arms[0].print(out)
		return
	}
	r.printSpeeds(out)
	r.printDrafts(out)
	r.printCosts(out)
	for _, b := range r.Bandwidth {
		limit := "no limit"
		if b.LimitBytes > 0 {
			limit = "limit " + formatSize(b.LimitBytes) + "/s"
		}
		fmt.Fprintf(out, "flash, %s: reads of %s, %d in flight: %s/s median, %s min, %s max\n", limit, formatSize(b.ReadBytes), b.Depth,
			formatSize(int64(b.Bandwidth.Median)), formatSize(int64(b.Bandwidth.Min)), formatSize(int64(b.Bandwidth.Max)))
	}
}

// print writes one arm at length.
func (a *armReport) print(out io.Writer) {
	row := func(name string, tokens int, s spread) {
		if len(s.Samples) > 0 {
			fmt.Fprintf(out, "%-8s %6d tokens  %9.2f tok/s median  %9.2f min  %9.2f max  %d samples\n",
				name, tokens, s.Median, s.Min, s.Max, len(s.Samples))
		}
	}
	row("prefill", a.PromptTokens, a.Prefill)
	row("decode", a.DecodeTokens, a.Decode)
	fmt.Fprintf(out, "peak memory %s\n", formatSize(max(a.PeakRSSBytes, a.PeakGroupBytes)))
	a.engineSummary.print(out)
	if a.Cost != nil {
		a.Cost.print(out)
	}
	a.printLayers(out)
}

// printLayers is a table of the streamed layers.
func (a *armReport) printLayers(out io.Writer) {
	if a.HitRate == nil {
		return
	}
	fmt.Fprintf(out, "\n%8s %9s %9s %9s %9s %9s %9s\n", "block", "recall", "precision", "previous", "hit", "join", "miss")
	row := func(name string, l layerRates) {
		fmt.Fprintf(out, "%8s %9s %9s %9s %9s %9s %9s\n", name, percent(l.Recall), percent(l.Precision),
			percent(l.PreviousOverlap), percent(l.HitRate), percent(l.JoinRate), percent(l.MissRate))
	}
	for _, layer := range a.PerLayer {
		row(fmt.Sprint(layer.Block), layer.layerRates)
	}
	row("all", a.layerRates)
}
