package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/les-project/les/lesext/probe"
)

// print writes the report for people.
func (d *diagnosis) print(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	kind := ""
	if d.Temporary {
		kind = ", a temporary file was read"
	}
	line("path", "%s (%s%s)", d.Path, formatSize(d.FileBytes), kind)
	if d.FileSystem != "" {
		line("file system", "%s", d.FileSystem)
	}
	line("direct reads", "%s", d.directText())
	line("memory limit", "%s", limitText(d.MemoryLimit > 0, formatSize(d.MemoryLimit)))
	line("planned for", "%s without --les-budget", formatSize(d.MemoryBytes))
	line("huge pages", "%s", orText(d.HugePages, "none"))
	line("processors", "%d, %s", d.Processors, limitText(d.ProcessorLimit > 0, fmt.Sprintf("limit %.1f", d.ProcessorLimit)))
	line("io_uring", "%s (not used)", d.IOUring)
	d.printSamples(out, true)
	d.printSamples(out, false)
	fmt.Fprintln(out)
	for _, sentence := range d.Advice.Sentences {
		fmt.Fprintln(out, sentence)
	}
	for _, problem := range d.Advice.Problems {
		fmt.Fprintln(out, "problem: "+problem)
	}
	if len(d.Advice.Problems) == 0 {
		fmt.Fprintln(out, "No problems found.")
	}
}

func (d *diagnosis) directText() string {
	switch {
	case d.DirectRefused != "":
		return "refused: " + d.DirectRefused
	case d.DirectAlign > 0:
		return fmt.Sprintf("possible, aligned to %d", d.DirectAlign)
	}
	return "possible, the system does not tell the alignment"
}

// printSamples prints a table of bandwidths and median latencies, a row for
// each read size.
func (d *diagnosis) printSamples(out io.Writer, direct bool) {
	var size int64
	var row strings.Builder
	for _, s := range d.Samples {
		if s.Direct != direct {
			continue
		}
		if size == 0 {
			fmt.Fprintf(out, "\n%s reads: MiB/s (median ms) with that many in flight\n", wayName(direct))
			fmt.Fprintf(out, "%10s", "")
			for _, depth := range probe.DefaultDepths() {
				fmt.Fprintf(out, "%18d", depth)
			}
		}
		if s.ReadBytes != size {
			size = s.ReadBytes
			fmt.Fprintf(&row, "\n%6d KiB", size>>10)
		}
		fmt.Fprintf(&row, "%18s", fmt.Sprintf("%.0f (%.2f)", s.BytesPerSecond/(1<<20), float64(s.LatencyMedianNS)/1e6))
	}
	if row.Len() > 0 {
		fmt.Fprintln(out, row.String())
	}
}

func wayName(direct bool) string {
	if direct {
		return "direct"
	}
	return "buffered"
}

func limitText(limited bool, text string) string {
	if limited {
		return text
	}
	return "no limit"
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
