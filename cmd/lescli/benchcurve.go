package main

import (
	"cmp"
	"fmt"
	"slices"
)

// curvePlot is speed and hit rate against the share of experts that have a
// slot.
type curvePlot struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64
	Speed, Ceiling, Hit      string // points of lines
	Points                   []curvePoint
	Ticks                    []curveTick
	Most                     string
}

// curvePoint is one arm.
type curvePoint struct {
	X, Y, HitY float64
	Text       string
}

// curveTick is a mark below the plot.
type curveTick struct {
	X    float64
	Text string
}

// newCurve draws the arms that differ in their slots from the first streamed
// one, and nil when fewer than three are there: two points are no curve.
func newCurve(arms []armReport) *curvePlot {
	var chosen []armReport
	for _, arm := range arms {
		if arm.HitRate == nil {
			continue
		}
		first := &arm
		if len(chosen) > 0 {
			first = &chosen[0]
		}
		same := arm.Model == first.Model && arm.Lookahead == first.Lookahead && arm.Lanes == first.Lanes && arm.ReadyFirst == first.ReadyFirst &&
			arm.Threads == first.Threads && arm.PromptTokens == first.PromptTokens && arm.BandwidthBytes == first.BandwidthBytes
		known := slices.ContainsFunc(chosen, func(other armReport) bool { return other.Slots == arm.Slots })
		if same && !known {
			chosen = append(chosen, arm)
		}
	}
	if len(chosen) < 3 {
		return nil
	}
	slices.SortFunc(chosen, func(a, b armReport) int { return cmp.Compare(a.Slots, b.Slots) })
	return drawCurve(chosen)
}

func drawCurve(arms []armReport) *curvePlot {
	c := &curvePlot{
		Width: curveWidth + 2*curveMargin, Height: curveHeight + 2*curveMargin,
		Left: curveMargin, Right: curveMargin + curveWidth, Top: curveMargin, Bottom: curveMargin + curveHeight,
	}
	most := 0.0
	for _, arm := range arms {
		most = max(most, arm.speed().Max)
		if arm.Roofline != nil {
			most = max(most, arm.Roofline.Speed)
		}
	}
	c.Most = fmt.Sprintf("%.2f", most)
	y := func(share float64) float64 { return c.Bottom - share*curveHeight }
	for _, arm := range arms {
		share := float64(arm.Slots) / float64(max(1, arm.Experts*arm.Layers))
		point := curvePoint{X: c.Left + share*curveWidth, Y: y(arm.speed().Median / positive(most)), HitY: y(*arm.HitRate)}
		point.Text = fmt.Sprintf("%s: %.2f tok/s, hit %s", arm.Name, arm.speed().Median, percent(arm.HitRate))
		c.Points = append(c.Points, point)
		c.Ticks = append(c.Ticks, curveTick{point.X, fmt.Sprintf("%.0f %%", 100*share)})
		c.Speed += fmt.Sprintf("%.1f,%.1f ", point.X, point.Y)
		c.Hit += fmt.Sprintf("%.1f,%.1f ", point.X, point.HitY)
		if arm.Roofline != nil {
			c.Ceiling += fmt.Sprintf("%.1f,%.1f ", point.X, y(arm.Roofline.Speed/positive(most)))
		}
	}
	return c
}
