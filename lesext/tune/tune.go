// Package tune chooses between a few settings of the engine by what they do to
// the time of a token. It knows nothing of what the settings mean, has no clock
// and no lock; the caller serialises all calls. All memory is taken by New.
package tune

import (
	"math/bits"
	"slices"
)

const (
	// firstSteps run undisturbed before the first trial: a setting that loses is
	// given up early in the first answer.
	firstSteps = 8
	// restSteps is the rest after a trial that changes something. Every trial that
	// changes nothing makes the next rest restGrowth times as long, up to
	// restStepsMax, so that a settled choice costs next to nothing.
	restSteps    = 48
	restGrowth   = 4
	restStepsMax = 4096
	// settleSteps are not counted after a change: they still run on what the
	// other setting left in memory.
	settleSteps = 2
	// blockSteps are counted in a row for one side of a trial, and pairs is how
	// often both sides have one, see sideOf.
	blockSteps = 6
	pairs      = 4
	// gainPercent is what a rival must save to be preferred. Means of 24 steps
	// differ by about one percent when nothing differs.
	gainPercent = 2
	// winsNeeded is how many trials in a row a rival must win. One in twelve is
	// won by chance where steps differ by a tenth among themselves.
	winsNeeded = 2
	// clearPercent is a difference that ends a trial, either way, after clearPairs
	// pairs: four times what the means of 12 steps differ by when nothing does.
	clearPercent = 8
	clearPairs   = 2
	// firstPercent is the same for the first trial: nothing speaks for the setting
	// it began with but that it was the first.
	firstPercent = 2
)

// Chooser picks one of several settings, numbered from zero; all others take
// turns as its rival.
//
//	rest -> trial: champion, rival, rival, champion, rival, ... -> rest
type Chooser struct {
	settings int
	best     int // the champion
	rival    int // of the running or the next trial
	rest     int // steps between trials, at present
	left     int // steps until this part ends
	block    int // of the running trial; -1 at rest
	last     int64
	width    int         // of the step before
	clear    int64       // percent that end the running or the next trial early
	wins     int         // trials in a row that the rival has won
	known    bool        // last is when the step before began
	times    [2][]timing // of the champion and the rival in this trial
	widths   [2][]width  // the same by tokens of the step, for comparing
	sorted   []int64
}

// timing is one step of a trial.
type timing struct {
	width int // tokens
	time  int64
}

// width is what the steps of so many tokens took together.
type width struct{ n, time int64 }

// New returns a chooser that begins with one of the settings, for steps of at
// most widthMax tokens.
func New(settings, first, widthMax int) *Chooser {
	c := &Chooser{settings: settings, best: first, rest: restSteps, left: firstSteps, clear: firstPercent, block: -1}
	for i := range c.times {
		c.times[i] = make([]timing, 0, pairs*blockSteps)
		c.widths[i] = make([]width, widthMax+1)
	}
	c.sorted = make([]int64, 0, pairs*blockSteps)
	c.rival = c.nextRival(-1)
	return c
}

// Best is the setting chosen so far.
func (c *Chooser) Best() int { return c.best }

// Step tells the time, in any unit, at which a step of so many tokens begins, and
// returns the setting that it is to run with.
func (c *Chooser) Step(now int64, tokens int) int {
	if c.known && c.block >= 0 && c.left < blockSteps {
		side := sideOf(c.block)
		c.times[side] = append(c.times[side], timing{c.width, now - c.last})
	}
	c.last, c.width, c.known = now, tokens, true
	if c.left == 0 {
		c.advance()
	}
	c.left--
	return c.current()
}

// Interrupt tells that something else than a step like the others has run, as a
// prompt between two answers. The time since the last step says nothing; what
// was counted before stays, so that trials end however short the answers are.
func (c *Chooser) Interrupt() { c.known = false }

func (c *Chooser) current() int {
	if c.block >= 0 && sideOf(c.block) == 1 {
		return c.rival
	}
	return c.best
}

// sideOf is 0 for a block of the champion, 1 for one of the rival, in the order
// of Thue and Morse, in which steady drift - of the machine, of a cache that
// fills - cancels out.
func sideOf(block int) int { return bits.OnesCount(uint(block)) % 2 }

// begin starts a block of a trial.
func (c *Chooser) begin(block int) {
	if block == 0 {
		c.times[0], c.times[1] = c.times[0][:0], c.times[1][:0]
	}
	before := c.current()
	c.block, c.left = block, blockSteps
	if c.current() != before {
		c.left += settleSteps
	}
}

// advance ends a rest or a block.
func (c *Chooser) advance() {
	switch {
	case c.settings < 2:
		c.left = c.rest
	case c.block < 0:
		c.begin(0)
	case c.block == 2*clearPairs-1 && c.rivalTakes(100+c.clear):
		c.end(false)
	case c.block == 2*clearPairs-1 && !c.rivalTakes(100-c.clear):
		c.wins = winsNeeded
		c.end(true)
	case c.block == 2*pairs-1:
		c.end(!c.rivalTakes(100 - gainPercent))
	default:
		c.begin(c.block + 1)
	}
}

// end ends a trial. A rival that has won is tried again at once.
func (c *Chooser) end(won bool) {
	c.clear = clearPercent
	if won {
		c.wins++
		if c.wins < winsNeeded {
			c.begin(0)
			return
		}
		c.best, c.rival = c.rival, c.best
		c.rest = restSteps
	} else {
		c.rest = min(restGrowth*c.rest, restStepsMax)
	}
	c.wins = 0
	c.rival = c.nextRival(c.rival)
	c.block, c.left = -1, c.rest
}

// nextRival goes round through all settings but the champion.
func (c *Chooser) nextRival(last int) int {
	next := (last + 1) % c.settings
	if next == c.best {
		next = (next + 1) % c.settings
	}
	return next
}

// rivalTakes reports whether the rival's steps take at least that share of the
// champion's. A side of which nothing is known decides for the champion.
func (c *Chooser) rivalTakes(percent int64) bool {
	c.addWidths()
	champion, rival := c.middle(0), c.middle(1)
	return champion == 0 || rival == 0 || rival*100 >= champion*percent
}

// addWidths adds up what steps of each width took on both sides.
func (c *Chooser) addWidths() {
	for side, times := range c.times {
		clear(c.widths[side])
		for _, t := range times {
			c.widths[side][t.width].n++
			c.widths[side][t.width].time += t.time
		}
	}
}

// whole is what a step as long as others of its width counts.
const whole = 1 << 16

// middle is the mean of the middle half of a side's times: one that took long by
// chance does not count, and of two blocks at different times both do. Steps of
// several tokens take longer, and a side may have more of them by chance, so each
// time is in parts of what steps of its width took on both sides; widths that
// only one side has do not count.
func (c *Chooser) middle(side int) int64 {
	c.sorted = c.sorted[:0]
	for _, t := range c.times[side] {
		a, b := c.widths[0][t.width], c.widths[1][t.width]
		if a.n > 0 && b.n > 0 {
			usual := max(1, (a.time/a.n+b.time/b.n)/2)
			c.sorted = append(c.sorted, max(1, t.time*whole/usual))
		}
	}
	slices.Sort(c.sorted)
	half := c.sorted[len(c.sorted)/4 : len(c.sorted)-len(c.sorted)/4]
	var sum int64
	for _, t := range half {
		sum += t
	}
	return sum / int64(max(1, len(half)))
}
