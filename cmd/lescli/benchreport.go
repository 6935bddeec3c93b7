package main

import (
	"fmt"
	"io"
	"slices"
)

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
	Text         string  `json:"text"`          // file the tokens are from; empty when they are random
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

// benchSweep is the report of several numbers of slots.
type benchSweep struct {
	Sweep []benchReport `json:"sweep"`
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
	r.printLayers(out)
}

// printLayers is a table of the streamed layers.
func (r *benchReport) printLayers(out io.Writer) {
	if r.HitRate == nil {
		return
	}
	fmt.Fprintf(out, "\n%8s %9s %9s %9s %9s %9s %9s\n", "block", "recall", "precision", "previous", "hit", "join", "miss")
	row := func(name string, l layerRates) {
		fmt.Fprintf(out, "%8s %9s %9s %9s %9s %9s %9s\n", name, percent(l.Recall), percent(l.Precision),
			percent(l.PreviousOverlap), percent(l.HitRate), percent(l.JoinRate), percent(l.MissRate))
	}
	for _, layer := range r.PerLayer {
		row(fmt.Sprint(layer.Block), layer.layerRates)
	}
	row("all", r.layerRates)
}

// print is a table of hit rates against slots.
func (s *benchSweep) print(out io.Writer) {
	fmt.Fprintf(out, "\n%11s %7s %7s %9s %9s %9s %12s %10s\n", "slots/layer", "slots", "cached", "hit", "join", "miss", "bytes/token", "tok/s")
	for _, r := range s.Sweep {
		if r.HitRate == nil {
			continue
		}
		all := float64(r.Experts * r.Layers)
		fmt.Fprintf(out, "%11.2f %7d %6.1f%% %9s %9s %9s %12s %10.2f\n", r.SlotsPerLayer, r.Slots, 100*float64(r.Slots)/all,
			percent(r.HitRate), percent(r.JoinRate), percent(r.MissRate), formatSize(int64(*r.BytesPerToken)), r.Decode.Median)
	}
}
