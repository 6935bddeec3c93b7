package main

import (
	"fmt"
	"io"
)

// nameWidth is the width of the column with the names of the arms.
func (r *benchReport) nameWidth() int {
	width := len("arm")
	for _, arm := range r.Arms {
		width = max(width, len(arm.Name))
	}
	return width
}

// printSpeeds is the table of what was reached.
func (r *benchReport) printSpeeds(out io.Writer) {
	width := r.nameWidth()
	first := r.Arms[0].speed().Median
	fmt.Fprintf(out, "\n%-*s  %9s %9s %9s %3s %7s %9s %8s  %10s\n", width, "arm", "tok/s", "min", "max", "n", "ratio", "ceiling", "reached", "peak")
	row := func(name string, s spread, ratio, ceiling, reached string, peak int64) {
		fmt.Fprintf(out, "%-*s  %9.3f %9.3f %9.3f %3d %7s %9s %8s  %10s\n", width, name,
			s.Median, s.Min, s.Max, len(s.Samples), ratio, ceiling, reached, formatSize(peak))
	}
	for _, arm := range r.Arms {
		ratio, ceiling, reached := "-", "-", "-"
		if first > 0 {
			ratio = fmt.Sprintf("%.3f", arm.speed().Median/first)
		}
		if arm.Roofline != nil {
			ceiling, reached = fmt.Sprintf("%.3f", arm.Roofline.Speed), fmt.Sprintf("%.1f %%", 100*arm.Roofline.Reached)
		}
		row(arm.Name, arm.speed(), ratio, ceiling, reached, max(arm.PeakRSSBytes, arm.PeakGroupBytes))
	}
	for _, arm := range r.Arms {
		if arm.DecodeTokens > 0 && arm.PromptTokens > 0 {
			row(arm.Name, arm.Prefill, "prefill", "-", "-", max(arm.PeakRSSBytes, arm.PeakGroupBytes))
		}
	}
	for _, line := range r.doubts() {
		fmt.Fprintln(out, line)
	}
}

// doubts are lines about arms that are above their ceiling.
func (r *benchReport) doubts() (lines []string) {
	for _, arm := range r.Arms {
		if arm.Roofline != nil && arm.Roofline.Doubt != "" {
			lines = append(lines, fmt.Sprintf("%s is above its ceiling: %s", arm.Name, arm.Roofline.Doubt))
		}
	}
	return lines
}

// printCosts is the table of where a token's time and bytes went.
func (r *benchReport) printCosts(out io.Writer) {
	width := r.nameWidth()
	fmt.Fprintf(out, "\na token:\n%-*s  %8s %8s %8s %8s %8s %8s %8s %8s %10s %10s %7s %7s %7s %7s %7s %9s %9s\n", width, "arm",
		"ms", "stall", "compute", "nodes", "predict", "callback", "user", "system", "read", "missed",
		"hit", "join", "miss", "recall", "as prev", "faults", "switches")
	for _, arm := range r.Arms {
		cost := arm.Cost
		if cost == nil {
			continue
		}
		read, missed := "-", "-"
		if arm.BytesPerToken != nil {
			read, missed = formatSize(int64(*arm.BytesPerToken)), formatSize(int64(cost.MissedBytes))
		}
		fmt.Fprintf(out, "%-*s  %8.2f %8.2f %8.2f %8.2f %8.2f %8.3f %8.2f %8.2f %10s %10s %7s %7s %7s %7s %7s %9.1f %9.1f\n", width, arm.Name,
			cost.WallMS, cost.StallMS, cost.ComputeMS, cost.NodeMS, cost.PredictMS, cost.CallbackMS, cost.UserMS, cost.SystemMS, read, missed,
			short(arm.HitRate), short(arm.JoinRate), short(arm.MissRate), short(arm.Recall), short(arm.PreviousOverlap),
			cost.MajorFaults, cost.VoluntarySwitches+cost.ForcedSwitches)
	}
}

// short prints a rate for a table.
func short(rate *float64) string {
	if rate == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**rate)
}
