package main

import (
	"fmt"
	"io"
	"time"

	"github.com/les-project/les/lesext/dspark"
)

// draftSummary is the drafter's part of a report.
type draftSummary struct {
	Type         string        `json:"type"`          // as llama.cpp names it
	Max          int           `json:"max"`           // most tokens of a draft
	Steps        int64         `json:"steps"`         // of the model, after the prompt
	Drafted      int64         `json:"drafted"`       // tokens
	Verified     int64         `json:"verified"`      // of them in a step
	Accepted     int64         `json:"accepted"`      // of them
	DraftSeconds float64       `json:"draft_seconds"` // drafting, and keeping the drafter up to date
	StepSeconds  float64       `json:"step_seconds"`  // steps of the model
	Slots        int           `json:"slots"`         // of the drafter's own experts; 0 when none are streamed
	ReadBytes    int64         `json:"read_bytes"`    // of them, since the start
	Widths       []draftWidth  `json:"widths"`        // by verified tokens
	Confidences  []reliability `json:"confidences"`   // by what the drafter said; empty if it says nothing
}

// draftWidth is the steps that verified one number of tokens.
type draftWidth struct {
	Width     int     `json:"width"`
	Steps     int64   `json:"steps"`
	Accepted  float64 `json:"accepted"`   // mean of a step
	StepMS    float64 `json:"step_ms"`    // mean
	Experts   float64 `json:"experts"`    // distinct ones a step, over all layers; 0 when nothing is streamed
	ReadBytes float64 `json:"read_bytes"` // a step
}

// reliability compares confidences with what became of the tokens.
type reliability struct {
	Tokens     int64   `json:"tokens"`
	Confidence float64 `json:"confidence"` // mean
	Accepted   float64 `json:"accepted"`   // part
}

func (d *drafting) summary() *draftSummary {
	sum := newDraftSummary(d.kind, d.control.Stats())
	if d.engine != nil {
		stats := d.engine.Stats()
		sum.Slots, sum.ReadBytes = d.engine.Plan().SlotCount, stats.BytesDemand+stats.BytesPrefetch
	}
	return sum
}

// newDraftSummary puts counts into the form of reports.
func newDraftSummary(kind string, s dspark.Stats) *draftSummary {
	sum := &draftSummary{
		Type: kind, Max: len(s.Widths) - 1, Steps: s.Steps, Drafted: s.Drafted, Verified: s.Verified, Accepted: s.Accepted,
		DraftSeconds: time.Duration(s.DraftNS).Seconds(), StepSeconds: time.Duration(s.StepNS).Seconds(),
		Widths: []draftWidth{}, Confidences: []reliability{},
	}
	for width, w := range s.Widths {
		if w.Steps > 0 {
			sum.Widths = append(sum.Widths, newDraftWidth(width, w))
		}
	}
	for _, b := range s.Bins {
		if n := float64(b.Tokens); n > 0 {
			sum.Confidences = append(sum.Confidences, reliability{b.Tokens, b.Confidence / n, float64(b.Accepted) / n})
		}
	}
	return sum
}

func newDraftWidth(width int, w dspark.WidthStats) draftWidth {
	n := float64(w.Steps)
	return draftWidth{
		Width: width, Steps: w.Steps, Accepted: float64(w.Accepted) / n, StepMS: float64(w.StepNS) / n / 1e6,
		Experts: float64(w.Experts) / n, ReadBytes: float64(w.ReadBytes) / n,
	}
}

func (s *draftSummary) print(out io.Writer) {
	fmt.Fprintf(out, "drafts (%s): %d tokens in %d steps, %d verified, %d accepted; drafting took %.2f s of %.2f s\n",
		s.Type, s.Drafted, s.Steps, s.Verified, s.Accepted, s.DraftSeconds, s.DraftSeconds+s.StepSeconds)
}
