package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"slices"
)

//go:embed benchhtml.tmpl
var benchTemplate string

// benchPage is what the template shows.
type benchPage struct {
	*benchReport
	Models []string
	Plots  []barPlot
	Curve  *curvePlot // nil without several numbers of slots
	Rows   []pageRow
}

// pageRow is one arm with its figures as text.
type pageRow struct {
	Name  string
	Cells []string
}

// Sizes of the plots in pixels; text is 12 pixels high.
const (
	plotWidth   = 640.0 // of the bars at the largest value
	plotLabel   = 230.0 // left of the bars
	plotValue   = 210.0 // right of them, for the longest value
	plotRow     = 26.0
	plotBar     = 16.0
	curveWidth  = 640.0
	curveHeight = 300.0
	curveMargin = 50.0
)

// barPlot has a row of bars for each arm.
type barPlot struct {
	Title, Unit, Note string
	Width, Height     float64
	LabelX            float64
	Rows              []barRow
	Legend            []legendEntry
}

type legendEntry struct {
	X, TextX, Y float64
	Color, Text string
}

// barRow is one arm: bars one behind the other, and what is drawn over them.
type barRow struct {
	Label        string
	Y, TextY     float64
	MiddleY      float64
	Bars         []bar
	Low, High    float64   // ends of the whisker; equal without one
	Dots         []float64 // samples
	Mark         float64   // ceiling, 0 for none
	ValueX       float64
	Value        string
	MarkY, MarkH float64
}

type bar struct {
	X, Width float64
	Color    string
}

// Colours that are told apart in print and by people who see fewer.
const (
	colorMain  = "#0072b2"
	colorOther = "#e69f00"
	colorThird = "#009e73"
)

// newBenchPage computes all plots.
func newBenchPage(r *benchReport) *benchPage {
	page := &benchPage{benchReport: r, Curve: newCurve(r.Arms)}
	for _, arm := range r.Arms {
		if !slices.Contains(page.Models, arm.Model) {
			page.Models = append(page.Models, arm.Model)
		}
		page.Rows = append(page.Rows, newPageRow(&arm))
	}
	speeds := speedPlot(r.Arms)
	for _, line := range r.doubts() {
		speeds.Note += " " + line + "."
	}
	page.Plots = append(page.Plots, speeds)
	if costs := costPlot(r.Arms); len(costs.Rows) > 0 {
		page.Plots = append(page.Plots, costs)
	}
	if bytes := bytesPlot(r.Arms); len(bytes.Rows) > 0 {
		page.Plots = append(page.Plots, bytes)
	}
	return page
}

// newPageRow repeats the tables of the terminal.
func newPageRow(arm *armReport) pageRow {
	s := arm.speed()
	cells := []string{
		fmt.Sprintf("%.3f", s.Median), fmt.Sprintf("%.3f", s.Min), fmt.Sprintf("%.3f", s.Max), fmt.Sprint(len(s.Samples)),
		"-", "-", formatSize(max(arm.PeakRSSBytes, arm.PeakGroupBytes)),
		percent(arm.HitRate), percent(arm.JoinRate), percent(arm.MissRate), percent(arm.Recall), percent(arm.PreviousOverlap),
	}
	if arm.Roofline != nil {
		cells[4], cells[5] = fmt.Sprintf("%.3f", arm.Roofline.Speed), fmt.Sprintf("%.1f %%", 100*arm.Roofline.Reached)
	}
	if c := arm.Cost; c != nil {
		for _, ms := range []float64{c.WallMS, c.StallMS, c.NodeMS, c.PredictMS, c.CallbackMS, c.UserMS, c.SystemMS} {
			cells = append(cells, fmt.Sprintf("%.2f", ms))
		}
		cells = append(cells, formatSize(int64(c.MissedBytes)), fmt.Sprintf("%.1f", c.MajorFaults), fmt.Sprintf("%.1f", c.VoluntarySwitches+c.ForcedSwitches))
	}
	return pageRow{arm.Name, cells}
}

// newPlot has room for so many rows.
func newPlot(title, unit, note string, rows int) barPlot {
	return barPlot{
		Title: title, Unit: unit, Note: note, Width: plotLabel + plotWidth + plotValue, Height: float64(rows)*plotRow + 30, LabelX: plotLabel - 8,
	}
}

// add puts a row at the end.
func (p *barPlot) add(label string, row barRow) {
	y := float64(len(p.Rows)) * plotRow
	row.Label, row.Y, row.TextY, row.MiddleY = label, y+5, y+17, y+5+plotBar/2
	row.MarkY, row.MarkH = y+2, plotBar+6
	p.Rows = append(p.Rows, row)
}

// legend names the colours below the rows.
func (p *barPlot) legend(texts ...string) {
	colors := []string{colorMain, colorOther, colorThird}
	y := float64(len(p.Rows))*plotRow + 12
	for i, text := range texts {
		x := plotLabel + 200*float64(i)
		p.Legend = append(p.Legend, legendEntry{x, x + 16, y, colors[i], text})
	}
	p.Height = y + 18
}

// speedPlot has medians with their spread, samples and ceilings.
func speedPlot(arms []armReport) barPlot {
	most := 0.0
	for _, arm := range arms {
		most = max(most, arm.speed().Max)
		if arm.Roofline != nil {
			most = max(most, arm.Roofline.Speed)
		}
	}
	p := newPlot("Speed", "tokens a second", "Bars are medians, thin lines reach from least to most, dots are samples; a red mark is the ceiling: perfect prefetch with this cache.", len(arms))
	scale := plotWidth / positive(most)
	for _, arm := range arms {
		s := arm.speed()
		row := barRow{
			Bars: []bar{{plotLabel, s.Median * scale, colorMain}}, Low: plotLabel + s.Min*scale, High: plotLabel + s.Max*scale,
			Value: fmt.Sprintf("%.2f", s.Median),
		}
		end := s.Max
		for _, sample := range s.Samples {
			row.Dots = append(row.Dots, plotLabel+sample*scale)
		}
		if arm.Roofline != nil {
			row.Mark = plotLabel + arm.Roofline.Speed*scale
			row.Value += fmt.Sprintf(" (%.0f %% of ceiling)", 100*arm.Roofline.Reached)
			end = max(end, arm.Roofline.Speed)
		}
		row.ValueX = plotLabel + end*scale + 8
		p.add(arm.Name, row)
	}
	return p
}

// costPlot splits the time of a token.
func costPlot(arms []armReport) barPlot {
	most := 0.0
	for _, arm := range arms {
		if arm.Cost != nil {
			most = max(most, arm.Cost.WallMS)
		}
	}
	p := newPlot("Time of a token", "ms", "Mean over all samples. Stall is waiting for bytes, mean over compute threads; compute is the rest, which the lookahead and the scheduler are part of.", len(arms))
	scale := plotWidth / positive(most)
	for _, arm := range arms {
		if c := arm.Cost; c != nil {
			rest := max(0, c.ComputeMS-c.PredictMS-c.CallbackMS) * scale
			ours := min(c.ComputeMS, c.PredictMS+c.CallbackMS) * scale
			p.add(arm.Name, barRow{
				Bars:   []bar{{plotLabel, rest, colorMain}, {plotLabel + rest, ours, colorThird}, {plotLabel + rest + ours, c.StallMS * scale, colorOther}},
				ValueX: plotLabel + c.WallMS*scale + 8, Value: fmt.Sprintf("%.1f ms, stall %.1f", c.WallMS, c.StallMS),
			})
		}
	}
	p.legend("compute", "stall", "lookahead, scheduler")
	return p
}

// bytesPlot compares what was read with what had to be.
func bytesPlot(arms []armReport) barPlot {
	most := 0.0
	for _, arm := range arms {
		if arm.BytesPerToken != nil {
			most = max(most, *arm.BytesPerToken, arm.Cost.MissedBytes)
		}
	}
	p := newPlot("Bytes of a token", "read from the file", "Missed are experts that were not in memory before the step; what was read beyond them was wasted.", len(arms))
	scale := plotWidth / positive(most)
	for _, arm := range arms {
		if arm.BytesPerToken != nil {
			missed := min(arm.Cost.MissedBytes, *arm.BytesPerToken) * scale
			all := *arm.BytesPerToken * scale
			p.add(arm.Name, barRow{
				Bars:   []bar{{plotLabel, missed, colorMain}, {plotLabel + missed, all - missed, colorOther}},
				ValueX: plotLabel + all + 8, Value: fmt.Sprintf("%s, missed %s", formatSize(int64(*arm.BytesPerToken)), formatSize(int64(arm.Cost.MissedBytes))),
			})
		}
	}
	p.legend("missed", "wasted")
	return p
}

// positive keeps a scale from dividing by nothing.
func positive(value float64) float64 {
	if value > 0 && !math.IsInf(value, 0) {
		return value
	}
	return 1
}

// writeBenchHTML writes the report as one page that needs nothing else.
func writeBenchHTML(name string, r *benchReport) error {
	rate := func(bytesPerSecond float64) string { return formatSize(int64(bytesPerSecond)) + "/s" }
	page, err := template.New("bench").Funcs(template.FuncMap{"size": formatSize, "rate": rate}).Parse(benchTemplate)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Execute(&text, newBenchPage(r)); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return writeReport("html", name, text.Bytes())
}
