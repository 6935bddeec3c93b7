package main

import (
	"io"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
)

// benchSettings is what a process needs to know to measure one arm. It is sent
// to that process as JSON.
type benchSettings struct {
	Model       string
	Mode        lesMode
	BudgetBytes int64
	Slots       int // slotsFromBudget or slotsAll when not a number
	Lookahead   int
	Lanes       int // 0 for the engine's choice
	WholeLayers bool
	Repack      bool
	Warm        string      // file, empty for none
	Draft       *benchDraft // nil where nothing is drafted
	AnswerTemp  float64     // of the answer that arms follow when some of them draft

	Threads, Ubatch        int
	Warmup, Prompt, Decode int // tokens
	Rounds                 int // samples that a text must be long enough for
	Seed                   uint64
	Text                   string
}

// session says how the model is opened.
func (s benchSettings) session(log io.Writer) sessionOptions {
	return sessionOptions{
		path:  s.Model,
		warm:  s.Warm,
		draft: s.drafts(),
		les: lesOptions{
			mode: s.Mode, budgetBytes: s.BudgetBytes, slots: s.Slots, lookahead: s.Lookahead, lanes: s.Lanes, wholeLayers: s.WholeLayers,
		},
		resident: llama.ModelParams{LoadMode: llama.LoadRead, Repack: s.Repack},
		context: llama.ContextParams{
			Tokens: max(s.Prompt+s.Decode, s.Warmup, s.wideTokens()) + s.drafts().max, Batch: s.Ubatch, Ubatch: s.Ubatch, Seqs: 1, Outputs: 1, Threads: s.Threads,
		},
		line: newProgressLine(log),
		log:  log,
	}
}

// drafts are the --draft* options of the arm's session.
func (s benchSettings) drafts() draftOptions {
	if s.Draft == nil {
		return draftOptions{}
	}
	return draftOptions{kind: s.Draft.Kind, path: s.Draft.Path, max: s.Draft.Max, given: s.Draft.MaxGiven, budgetBytes: s.Draft.Budget, synthetic: s.Draft.Synthetic}
}

// textTokens is how many tokens of a text all samples take.
func (s benchSettings) textTokens() int {
	return max(s.Warmup+s.Rounds*(s.Prompt+s.Decode), s.wideTokens())
}

// wideWarmup steps of the greatest width are part of the warm-up of drafts.
const wideWarmup = 3

// wideTokens is how many tokens they take at most.
func (s benchSettings) wideTokens() int {
	if s.Draft == nil {
		return 0
	}
	return wideWarmup * (s.Draft.Max + 1)
}

// benchOpened is what a process tells once the model is ready.
type benchOpened struct {
	Description     string // the lines about what is streamed
	Architecture    string
	Threads, Ubatch int
	LoadSeconds     float64
	Plan            enginePlan
	Streamed        bool
	Reason          string // why nothing is
}

// benchSample is one measured turn.
type benchSample struct {
	Round           int
	Prefill, Decode benchPhase
	Draft           dspark.Stats // of an arm that drafts
	PeakRSSBytes    int64
	PeakGroupBytes  int64   // of the control group, 0 without one; filled in by the parent
	LoadSeconds     float64 // of the process that took it
}

// benchPhase is one part of a turn: the prompt, or the tokens fed one by one.
type benchPhase struct {
	Tokens  int
	Seconds float64
	Stats   engineStats
	Usage   processUsage
}

func (p benchPhase) speed() float64 {
	if p.Seconds <= 0 {
		return 0
	}
	return float64(p.Tokens) / p.Seconds
}

func (p benchPhase) plus(q benchPhase) benchPhase {
	return benchPhase{
		Tokens: p.Tokens + q.Tokens, Seconds: p.Seconds + q.Seconds,
		Stats: p.Stats.plus(q.Stats), Usage: p.Usage.plus(q.Usage),
	}
}

// benchSource is where samples of one arm come from: a process of its own, or
// this one.
type benchSource interface {
	open() (benchOpened, error)
	sample(turn benchTurn) (benchSample, error)
	// record draws the answer to the prompt of a round.
	record(round int) ([]llama.Token, error)
	close() error
}
