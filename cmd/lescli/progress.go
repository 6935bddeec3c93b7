package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progressLine is one line on a terminal that is written over. It prints
// nothing when the writer is not a terminal.
type progressLine struct {
	out   io.Writer // nil when there is no terminal
	last  time.Time
	shown bool
}

// progressInterval keeps the line from costing time.
const progressInterval = 100 * time.Millisecond

func newProgressLine(out io.Writer) *progressLine {
	if !isTerminal(out) {
		out = nil
	}
	return &progressLine{out: out}
}

// isTerminal says whether out is a character device, which is what matters for
// overwriting a line.
func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// show replaces the line.
func (p *progressLine) show(format string, args ...any) {
	if p.out == nil || time.Since(p.last) < progressInterval {
		return
	}
	p.last, p.shown = time.Now(), true
	fmt.Fprintf(p.out, "\r\x1b[K"+format, args...)
}

// clear removes the line.
func (p *progressLine) clear() {
	if p.shown {
		fmt.Fprint(p.out, "\r\x1b[K")
		p.shown = false
	}
}

// transfer returns a function that shows how much of a file is done and how
// long the rest will take at the pace so far.
func (p *progressLine) transfer(what string) func(done, total int64) {
	start := time.Now()
	return func(done, total int64) {
		p.show("%s: %s of %s%s", what, formatSize(done), formatSize(total), timeLeft(time.Since(start), done, total))
	}
}

// timeLeft says how long the rest takes; nothing before there is a pace.
func timeLeft(elapsed time.Duration, done, total int64) string {
	if done <= 0 || elapsed < time.Second {
		return ""
	}
	left := time.Duration(float64(elapsed) * float64(total-done) / float64(done))
	return fmt.Sprintf(", %v left", left.Round(time.Second))
}
