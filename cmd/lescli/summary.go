package main

import (
	"fmt"
	"io"
	"time"
)

// summary is what run reports, on the terminal and in the --json file. Rates
// of the engine are of the decode phase, and null when nothing is streamed.
type summary struct {
	Model           string        `json:"model"`            // file
	Architecture    string        `json:"architecture"`     // general.architecture
	Description     string        `json:"description"`      // llama.cpp's short text
	Stop            string        `json:"stop"`             // why generation ended
	Threads         int           `json:"threads"`          // compute threads
	ContextTokens   int           `json:"context_tokens"`   // context length
	UbatchTokens    int           `json:"ubatch_tokens"`    // tokens computed at once in the prompt
	PromptTokens    int           `json:"prompt_tokens"`    // tokens of the prompt computed
	GeneratedTokens int           `json:"generated_tokens"` // tokens of the answer
	LoadSeconds     float64       `json:"load_seconds"`     // from the start to a context ready for the prompt
	FirstSeconds    float64       `json:"first_seconds"`    // from the start to the first token of the answer
	PrefillTPS      float64       `json:"prefill_tps"`      // prompt tokens a second
	DecodeTPS       float64       `json:"decode_tps"`       // tokens a second after the prompt
	PeakRSSBytes    int64         `json:"peak_rss_bytes"`   // most memory the process had resident
	Draft           *draftSummary `json:"draft"`            // null without --draft and --draft-type
	engineSummary
}

// summary collects the report of a generation.
func (g *generation) summary(opts runOptions) summary {
	s, params := g.session, opts.session.context
	var drafts *draftSummary
	if s.drafting != nil {
		drafts = s.drafting.summary()
	}
	return summary{
		Draft:           drafts,
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
	if s.Draft != nil {
		s.Draft.print(out)
	}
	s.engineSummary.print(out)
}
