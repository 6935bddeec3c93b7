package main

import (
	"fmt"
	"io"
	"time"
)

// summary is what run reports, on the terminal and in the --json file. Rates
// of the engine are of the decode phase, and null when nothing is streamed.
type summary struct {
	Model           string  `json:"model"`            // file
	Architecture    string  `json:"architecture"`     // general.architecture
	Description     string  `json:"description"`      // llama.cpp's short text
	Stop            string  `json:"stop"`             // why generation ended
	Threads         int     `json:"threads"`          // compute threads
	ContextTokens   int     `json:"context_tokens"`   // context length
	UbatchTokens    int     `json:"ubatch_tokens"`    // tokens computed at once in the prompt
	PromptTokens    int     `json:"prompt_tokens"`    // tokens of the prompt computed
	GeneratedTokens int     `json:"generated_tokens"` // tokens of the answer
	LoadSeconds     float64 `json:"load_seconds"`     // from the start to a context ready for the prompt
	FirstSeconds    float64 `json:"first_seconds"`    // from the start to the first token of the answer
	PrefillTPS      float64 `json:"prefill_tps"`      // prompt tokens a second
	DecodeTPS       float64 `json:"decode_tps"`       // tokens a second after the prompt
	PeakRSSBytes    int64   `json:"peak_rss_bytes"`   // most memory the process had resident
	engineSummary
}

// engineSummary is the engine's part of a report.
type engineSummary struct {
	LES              string         `json:"les"`                // on or off
	LESReason        string         `json:"les_reason"`         // why it is off
	Layers           int            `json:"streamed_layers"`    // layers whose experts are streamed
	Experts          int            `json:"experts"`            // experts a layer
	Slots            int            `json:"slots"`              // expert slots in all: the pool
	FloorSlots       int            `json:"floor_slots"`        // of them the least that can run
	SlotsPerLayer    float64        `json:"slots_per_layer"`    // of them above the floor, mean of the layers
	BudgetBytes      int64          `json:"budget_bytes"`       // 0 when the slots were given
	PlanBytes        int64          `json:"plan_bytes"`         // planned for in all
	DenseBytes       int64          `json:"dense_bytes"`        // weights that stay resident
	KVBytes          int64          `json:"kv_bytes"`           // KV cache and recurrent state
	ComputeBytes     int64          `json:"compute_bytes"`      // graph buffers and the work buffer
	ProcessBytes     int64          `json:"process_bytes"`      // code, vocabulary, runtime and a reserve for its growth
	SlotsBytes       int64          `json:"slots_bytes"`        // all expert slots
	FloorBytes       int64          `json:"floor_bytes"`        // least budget
	Resident         []expertTensor `json:"resident_experts"`   // expert tensors that are not streamed
	HitRate          *float64       `json:"hit_rate"`           // experts that were ready / lookups
	JoinRate         *float64       `json:"join_rate"`          // experts whose read was under way / lookups
	MissRate         *float64       `json:"miss_rate"`          // experts whose read had to begin / lookups
	Recall           *float64       `json:"recall"`             // routed experts that were predicted / routed
	Precision        *float64       `json:"precision"`          // predicted experts that were routed / predicted
	BytesPerToken    *float64       `json:"bytes_per_token"`    // read from the file
	StallMSPerToken  *float64       `json:"stall_ms_per_token"` // mean over compute threads
	DemandBytes      int64          `json:"demand_bytes"`       // read because a layer needed it
	PrefetchBytes    int64          `json:"prefetch_bytes"`     // read on a guess
	PrefillReadBytes int64          `json:"prefill_read_bytes"` // read while computing the prompt
}

// summary collects the report of a generation.
func (g *generation) summary(opts runOptions) summary {
	s, params := g.session, opts.session.context
	return summary{
		Model:           s.model.Path(),
		Architecture:    s.model.Architecture(),
		Description:     s.model.Description(),
		Stop:            g.stop,
		Threads:         s.lctx.Threads(),
		ContextTokens:   s.lctx.Tokens(),
		UbatchTokens:    params.Ubatch,
		PromptTokens:    g.prompt,
		GeneratedTokens: g.generated,
		LoadSeconds:     g.watch.ready.Sub(g.watch.begin).Seconds(),
		FirstSeconds:    g.watch.first.Sub(g.watch.begin).Seconds(),
		PrefillTPS:      perSecond(g.prompt, g.watch.prefilled.Sub(g.watch.ready)),
		DecodeTPS:       perSecond(g.decoded, g.watch.end.Sub(g.watch.first)),
		PeakRSSBytes:    peakMemory(),
		engineSummary:   s.engineSummary(g.decode, g.prefill, g.decoded),
	}
}

// engineSummary puts the engine's counters over tokens decoded into a report.
func (s *session) engineSummary(decode, prefill engineStats, tokens int) engineSummary {
	if s.engine == nil || s.reason != "" {
		return engineSummary{LES: "off", LESReason: s.reason}
	}
	p := s.engine.Plan()
	sum := engineSummary{
		LES: "on", Layers: p.Layers, Experts: p.Experts, Slots: p.SlotCount, FloorSlots: p.FloorSlots(),
		SlotsPerLayer: p.SlotsPerLayer(), BudgetBytes: p.Budget, PlanBytes: p.Total,
		DenseBytes: p.Dense, KVBytes: p.KV, ComputeBytes: p.Compute + p.Work, ProcessBytes: p.Process, SlotsBytes: p.Slots,
		FloorBytes: p.Floor, Resident: append([]expertTensor{}, p.Resident...), DemandBytes: decode.BytesDemand, PrefetchBytes: decode.BytesPrefetch,
		PrefillReadBytes: prefill.BytesDemand + prefill.BytesPrefetch,
	}
	if decode.Lookups > 0 {
		sum.HitRate = ratio(decode.Hits, decode.Lookups)
		sum.JoinRate = ratio(decode.Joins, decode.Lookups)
		sum.MissRate = ratio(decode.Misses, decode.Lookups)
		sum.Recall, sum.Precision = &decode.Recall, &decode.Precision
	}
	if tokens > 0 {
		sum.BytesPerToken = ratio(decode.BytesDemand+decode.BytesPrefetch, int64(tokens))
		sum.StallMSPerToken = ratio(decode.StallNS, int64(tokens)*int64(time.Millisecond))
	}
	return sum
}

func ratio(part, whole int64) *float64 {
	value := float64(part) / float64(whole)
	return &value
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// print writes the report for people.
func (s *summary) print(out io.Writer) {
	fmt.Fprintf(out, "\nstopped: %s; loaded in %.2f s, first token after %.2f s\n", s.Stop, s.LoadSeconds, s.FirstSeconds)
	fmt.Fprintf(out, "prefill: %d tokens, %.2f tok/s; decode: %d tokens, %.2f tok/s; peak memory %s\n",
		s.PromptTokens, s.PrefillTPS, s.GeneratedTokens, s.DecodeTPS, formatSize(s.PeakRSSBytes))
	s.engineSummary.print(out)
}

func (s *engineSummary) print(out io.Writer) {
	if s.HitRate != nil {
		fmt.Fprintf(out, "experts: hit %.1f %%, join %.1f %%, miss %.1f %%; lookahead: recall %.3f, precision %.3f\n",
			100**s.HitRate, 100**s.JoinRate, 100**s.MissRate, *s.Recall, *s.Precision)
	}
	if s.BytesPerToken != nil {
		fmt.Fprintf(out, "reads: %s a token; stall %.2f ms a token\n",
			formatSize(int64(*s.BytesPerToken)), *s.StallMSPerToken)
	}
}
