package main

import (
	"fmt"
	"io"
	"time"

	"github.com/les-project/les/lesext/sched"
)

// engineSummary is the engine's part of a report.
type engineSummary struct {
	LES              string         `json:"les"`              // on or off
	LESReason        string         `json:"les_reason"`       // why it is off
	Layers           int            `json:"streamed_layers"`  // layers whose experts are streamed
	Experts          int            `json:"experts"`          // experts a layer
	Slots            int            `json:"slots"`            // expert slots in all: the pool
	FloorSlots       int            `json:"floor_slots"`      // of them the least that can run
	SlotsPerLayer    float64        `json:"slots_per_layer"`  // of them above the floor, mean of the layers
	BudgetBytes      int64          `json:"budget_bytes"`     // 0 when the slots were given
	PlanBytes        int64          `json:"plan_bytes"`       // planned for in all
	DenseBytes       int64          `json:"dense_bytes"`      // weights that stay resident
	KVBytes          int64          `json:"kv_bytes"`         // KV cache and recurrent state
	ComputeBytes     int64          `json:"compute_bytes"`    // graph buffers and the work buffer
	ProcessBytes     int64          `json:"process_bytes"`    // code, vocabulary, runtime and a reserve for its growth
	SlotsBytes       int64          `json:"slots_bytes"`      // all expert slots
	FloorBytes       int64          `json:"floor_bytes"`      // least budget
	Resident         []expertTensor `json:"resident_experts"` // expert tensors that are not streamed
	layerRates                      // of all layers
	PerLayer         []layerReport  `json:"per_layer"`             // the same for each streamed layer
	BytesPerToken    *float64       `json:"bytes_per_token"`       // read from the file
	StallMSPerToken  *float64       `json:"stall_ms_per_token"`    // mean over compute threads
	DemandBytes      int64          `json:"demand_bytes"`          // read because a layer needed it
	PrefetchBytes    int64          `json:"prefetch_bytes"`        // read on a guess
	RetriedReads     int64          `json:"retried_reads"`         // reads that failed and were repeated
	PrefillReadBytes int64          `json:"prefill_read_bytes"`    // read while computing the prompt
	WarmExperts      int64          `json:"warm_experts"`          // read ahead from a warm file, since the start
	CutPercent       int            `json:"lookahead_cut_percent"` // of guesses, below which there is no prefetch
	WarmUseful       int64          `json:"warm_useful"`           // of them used before they lost their slot
	WarmBytes        int64          `json:"warm_bytes"`            // read for them
}

// layerRates are what the lookahead and the slots were worth; null without
// anything to divide by.
type layerRates struct {
	HitRate         *float64 `json:"hit_rate"`         // experts that were ready / lookups
	JoinRate        *float64 `json:"join_rate"`        // experts whose read was under way / lookups
	MissRate        *float64 `json:"miss_rate"`        // experts whose read had to begin / lookups
	Recall          *float64 `json:"recall"`           // routed experts that were predicted / routed
	Precision       *float64 `json:"precision"`        // predicted experts that were routed / predicted
	PreviousOverlap *float64 `json:"previous_overlap"` // routed experts that the previous token used too / routed
}

// layerReport is one streamed layer.
type layerReport struct {
	Block   int   `json:"block"`   // its number in the model
	Lookups int64 `json:"lookups"` // routed experts
	layerRates
}

func ratesOf(s sched.LayerStats) layerRates {
	return layerRates{
		HitRate: ratio(s.Hits, s.Lookups), JoinRate: ratio(s.Joins, s.Lookups), MissRate: ratio(s.Misses, s.Lookups),
		Recall: ratio(s.Right, s.RoutedGuessed), Precision: ratio(s.Right, s.Guessed),
		PreviousOverlap: ratio(s.Repeated, s.RoutedAgain),
	}
}

// engineSummary puts the engine's counters over tokens decoded into a report.
func (s *session) engineSummary(decode, prefill engineStats, tokens int) engineSummary {
	if s.engine == nil || s.reason != "" {
		return engineSummary{LES: "off", LESReason: s.reason}
	}
	return newEngineSummary(s.engine.Plan(), decode, prefill, tokens)
}

func newEngineSummary(p enginePlan, decode, prefill engineStats, tokens int) engineSummary {
	sum := engineSummary{
		LES: "on", Layers: p.Layers, Experts: p.Experts, Slots: p.SlotCount, FloorSlots: p.FloorSlots(),
		SlotsPerLayer: p.SlotsPerLayer(), BudgetBytes: p.Budget, PlanBytes: p.Total,
		DenseBytes: p.Dense, KVBytes: p.KV, ComputeBytes: p.Compute + p.Work, ProcessBytes: p.Process, SlotsBytes: p.Slots,
		FloorBytes: p.Floor, Resident: append([]expertTensor{}, p.Resident...), DemandBytes: decode.BytesDemand, PrefetchBytes: decode.BytesPrefetch,
		RetriedReads: decode.Retries + prefill.Retries, PrefillReadBytes: prefill.BytesDemand + prefill.BytesPrefetch,
	}
	all := prefill.plus(decode)
	sum.CutPercent = all.CutPercent
	sum.WarmExperts, sum.WarmUseful, sum.WarmBytes = all.Warmed, all.WarmUseful, all.WarmBytes
	sum.layerRates, sum.PerLayer = ratesOf(decode.total()), []layerReport{}
	for _, layer := range decode.Layers {
		sum.PerLayer = append(sum.PerLayer, layerReport{layer.Block, layer.Lookups, ratesOf(layer.LayerStats)})
	}
	if tokens > 0 {
		sum.BytesPerToken = ratio(decode.BytesDemand+decode.BytesPrefetch, int64(tokens))
		sum.StallMSPerToken = ratio(decode.StallNS, int64(tokens)*int64(time.Millisecond))
	}
	return sum
}

func (s *engineSummary) print(out io.Writer) {
	if s.HitRate != nil {
		fmt.Fprintf(out, "experts: hit %s, join %s, miss %s; lookahead: recall %s, precision %s; as the previous token: %s\n",
			percent(s.HitRate), percent(s.JoinRate), percent(s.MissRate), percent(s.Recall), percent(s.Precision), percent(s.PreviousOverlap))
	}
	if s.CutPercent > 100 && s.Recall != nil {
		fmt.Fprintln(out, "lookahead: turned off, tokens take longer with it")
	}
	if s.BytesPerToken != nil {
		fmt.Fprintf(out, "reads: %s a token; stall %.2f ms a token\n",
			formatSize(int64(*s.BytesPerToken)), *s.StallMSPerToken)
	}
	if s.WarmExperts > 0 {
		fmt.Fprintf(out, "warm: %d experts read ahead, %s, %d of them used\n", s.WarmExperts, formatSize(s.WarmBytes), s.WarmUseful)
	}
	if s.RetriedReads > 0 {
		fmt.Fprintf(out, "reads that failed and were repeated: %d\n", s.RetriedReads)
	}
}

// percent prints a rate, or a dash where there is none.
func percent(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100**rate)
}

// ratio is nil when there is nothing to divide by.
func ratio(part, whole int64) *float64 {
	if whole == 0 {
		return nil
	}
	value := float64(part) / float64(whole)
	return &value
}
