package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/les-project/les/lesext/dspark"
)

// armDraft is what drafting did for an arm, in comparison with the arms that
// differ from it in drafts only.
type armDraft struct {
	Width      int           `json:"width"`       // verified tokens; 0 the controller's choice, -1 no drafts
	Group      int           `json:"group"`       // arms with the same number are compared
	TokensStep float64       `json:"tokens_step"` // a step of the model
	Oracle     string        `json:"oracle"`      // the best arm of a fixed width, none included, found afterwards
	OfOracle   spread        `json:"of_oracle"`   // speed in parts of its speed in the same round
	OfPlain    spread        `json:"of_plain"`    // the same for the arm without drafts
	Whole      float64       `json:"whole"`       // in parts of the oracle, all rounds as one: what was learnt first counts
	Counts     *draftSummary `json:"counts"`      // null without drafts
	stats      dspark.Stats
}

// addDrafts compares the arms with and without drafts.
func (r *benchRun) addDrafts(report *benchReport) {
	groups := map[benchArm][]int{}
	var order []benchArm
	for i, arm := range r.arms {
		key := arm.undrafted()
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key] = append(groups[key], i)
	}
	for number, key := range order {
		if members := groups[key]; len(members) > 1 {
			r.compareDrafts(report, number, members)
		}
	}
}

func (r *benchRun) compareDrafts(report *benchReport, number int, members []int) {
	plain := members[slices.IndexFunc(members, func(i int) bool { return r.arms[i].width == widthPlain })]
	fixed := slices.DeleteFunc(slices.Clone(members), func(i int) bool { return r.arms[i].width == widthChosen })
	oracle := slices.MaxFunc(fixed, func(i, j int) int {
		return cmp.Compare(report.Arms[i].Decode.Median, report.Arms[j].Decode.Median)
	})
	for _, i := range members {
		arm := r.arms[i]
		d := &armDraft{
			Width: arm.width, Group: number, TokensStep: 1, Oracle: r.arms[oracle].name,
			OfOracle: arm.against(r.arms[oracle]), OfPlain: arm.against(r.arms[plain]),
			Whole: arm.whole() / r.arms[oracle].whole(),
		}
		if arm.Draft != nil {
			for _, sample := range arm.samples {
				d.stats = d.stats.Plus(sample.Draft)
			}
			d.Counts = newDraftSummary(arm.Draft.Kind, d.stats)
			d.TokensStep = 1 + float64(d.stats.Accepted)/float64(max(1, d.stats.Steps))
		}
		report.Arms[i].Draft = d
	}
}

// against is the speed in parts of another arm's, round by round.
func (a *armRun) against(other *armRun) spread {
	var ratios []float64
	for i := range min(len(a.samples), len(other.samples)) {
		ratios = append(ratios, a.samples[i].Decode.speed()/other.samples[i].Decode.speed())
	}
	return newSpread(ratios)
}

// whole is the speed of all rounds as one.
func (a *armRun) whole() float64 {
	var phase benchPhase
	for _, sample := range a.samples {
		phase.Tokens += sample.Decode.Tokens
		phase.Seconds += sample.Decode.Seconds
	}
	return phase.speed()
}

// printDrafts are the tables of arms that draft; nothing without one.
func (r *benchReport) printDrafts(out io.Writer) {
	if r.Arms[0].Draft == nil {
		return
	}
	width := r.nameWidth()
	fmt.Fprintf(out, "\ndrafts:\n%-*s  %8s %9s %9s %9s %9s %9s %9s %9s %9s\n", width, "arm",
		"tok/s", "tok/step", "verified", "accepted", "step ms", "draft ms", "of plain", "of best", "whole")
	for _, arm := range r.Arms {
		d := arm.Draft
		verified, accepted, stepMS, draftMS := 0.0, 0.0, arm.Cost.WallMS, 0.0
		if d.Counts != nil {
			n := float64(max(1, d.Counts.Steps))
			verified, accepted = float64(d.Counts.Verified)/n, float64(d.Counts.Accepted)/n
			stepMS, draftMS = 1000*d.Counts.StepSeconds/n, 1000*d.Counts.DraftSeconds/n
		}
		fmt.Fprintf(out, "%-*s  %8.3f %9.2f %9.2f %9.2f %9.2f %9.2f %9.3f %9.3f %9.3f\n", width, arm.Name,
			arm.Decode.Median, d.TokensStep, verified, accepted, stepMS, draftMS, d.OfPlain.Median, d.OfOracle.Median, d.Whole)
	}
	r.printWidths(out)
	r.printConfidences(out)
}

// groupStats adds the drafts of all arms that are compared with each other.
func (r *benchReport) groupStats(number int) (name string, sum dspark.Stats) {
	for _, arm := range r.Arms {
		if arm.Draft == nil || arm.Draft.Group != number {
			continue
		}
		if name == "" {
			name = arm.Name
		}
		if arm.Draft.Counts != nil {
			sum = sum.Plus(arm.Draft.stats)
		}
	}
	return name, sum
}

// printWidths is a table of what steps of each width cost.
func (r *benchReport) printWidths(out io.Writer) {
	fmt.Fprintf(out, "\nsteps by verified tokens, of all arms with drafts:\n%9s %7s %9s %9s %9s %9s %11s\n",
		"verified", "steps", "accepted", "ms", "experts", "growth", "read")
	for number := range r.Arms {
		name, sum := r.groupStats(number)
		if sum.Steps == 0 {
			continue
		}
		fmt.Fprintf(out, "%s and those with it\n", name)
		plain := newDraftWidth(0, sum.Widths[0])
		for width, counts := range sum.Widths {
			if counts.Steps == 0 {
				continue
			}
			w, growth := newDraftWidth(width, counts), "-"
			if plain.Experts > 0 {
				growth = fmt.Sprintf("%.2f", w.Experts/plain.Experts)
			}
			fmt.Fprintf(out, "%9d %7d %9.2f %9.2f %9.1f %9s %11s\n", width, w.Steps, w.Accepted, w.StepMS, w.Experts, growth, formatSize(int64(w.ReadBytes)))
		}
	}
}

// printConfidences compares what drafters said with what became of it.
func (r *benchReport) printConfidences(out io.Writer) {
	var sum dspark.Stats
	for number := range r.Arms {
		_, stats := r.groupStats(number)
		if stats.Steps > 0 {
			sum = sum.Plus(stats)
		}
	}
	rows := newDraftSummary("", sum).Confidences
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(out, "\nconfidences of verified tokens behind accepted ones:\n%9s %9s %9s\n", "said", "tokens", "accepted")
	for _, row := range rows {
		fmt.Fprintf(out, "%9.3f %9d %9.3f\n", row.Confidence, row.Tokens, row.Accepted)
	}
}
