package dspark

import "math"

const (
	// keepTime makes a step of 44 steps of its width ago count half.
	keepTime = 1 - 1.0/64
	// guessWeight is how many measured steps the guess of a width's time is worth.
	guessWeight = 1.5
	// slopeWeight is how many measured steps the first guess of what one more
	// expert costs is worth.
	slopeWeight = 2
	// leastSlope is the least it may be, for the question whether a first wider step
	// is to be tried.
	leastSlope = 0.15
	// maybe is the part by which the time of a width that was not used yet may be
	// overestimated, for the same question: in a large streamed model a step of nine
	// tokens can take as long as five plain ones.
	maybe = 0.15
	// doubtful is the part by which an estimate may be wrong after no step of that
	// width; it falls with the root of their number.
	doubtful = 0.2
	// A plain step that takes less than misled of what the first ones took tells that
	// those, up to misledSteps, were of a cold machine: plain steps are measured anew.
	misled      = 0.7
	misledSteps = 8
	// A step longer than outlier times the estimate counts as so long: a machine
	// that stood still says nothing about widths.
	outlier = 4
)

// mean is an average in which old values count less.
type mean struct{ sum, all float64 }

func (m *mean) add(value, keep float64) {
	m.sum = m.sum*keep + value
	m.all = m.all*keep + 1
}

func (m mean) value() float64 {
	if m.all == 0 {
		return 0
	}
	return m.sum / m.all
}

// costs are the times of steps and drafts by width.
type costs struct {
	config Config
	step   []mean    // of the target, by tokens verified
	draft  []mean    // of the drafter, by tokens asked for
	times  []float64 // the estimate for each width, after the last step
	wide   bool      // a step of more than one token was measured
}

func newCosts(config Config) costs {
	n := config.Max + 1
	return costs{config: config, step: make([]mean, n), draft: make([]mean, n), times: make([]float64, n)}
}

// drafted counts the time of a draft.
func (c *costs) drafted(ns int64, asked int) { c.add(&c.draft[asked], float64(ns)) }

func (c *costs) observe(s Step) {
	if s.Verified == 0 && c.step[0].all < misledSteps && float64(s.StepNS) < misled*c.step[0].value() {
		c.step[0] = mean{}
	}
	c.add(&c.step[s.Verified], float64(s.StepNS))
	c.wide = c.wide || s.Verified > 0
	c.estimate()
}

// add counts a time, cut where it is out of all proportion.
func (c *costs) add(m *mean, ns float64) {
	if m.all >= learnPlain-1 {
		ns = min(ns, outlier*m.value())
	}
	m.add(ns, keepTime)
}

// time is the estimate for a step that verifies so many tokens.
func (c *costs) time(width int) float64 { return max(1, c.times[width]) }

// least is what a step that verifies so many tokens takes at best, as far as is
// known.
func (c *costs) least(width int) float64 {
	if !c.wide {
		return c.time(0) + leastSlope*c.more(width)
	}
	return (1 - maybe) * c.time(width)
}

// doubt is how much less than estimated a step may take.
func (c *costs) doubt(width int) float64 {
	return c.time(width) * doubtful / math.Sqrt(1+c.step[width].all)
}

// estimate takes the measured times, and what the widths that were measured say
// about each other.
func (c *costs) estimate() {
	slope := c.slope()
	for width, m := range c.step {
		if width == 0 {
			c.times[0] = m.value()
			continue
		}
		guess := c.step[0].value() + slope*c.more(width)
		c.times[width] = (m.sum + guessWeight*guess) / (m.all + guessWeight)
	}
}

// slope is the measured cost of the more experts that wider steps need, in parts
// of what was expected: least squares over all widths, 1 before any was measured.
func (c *costs) slope() float64 {
	base := c.step[0].value()
	unit := c.more(1)
	if unit == 0 {
		return 1
	}
	above, below := slopeWeight*unit*unit, slopeWeight*unit*unit
	for width, m := range c.step[1:] {
		more := c.more(width + 1)
		weight := min(m.all, 16)
		above += weight * more * (m.value() - base)
		below += weight * more * more
	}
	return max(0, above/below)
}

// more is the expected cost of the experts that a step of this width needs
// beyond those of a plain one, if each token chooses for itself and each expert
// costs its part of a plain step.
func (c *costs) more(width int) float64 {
	return c.step[0].value() * (Growth(c.config.Experts, c.config.Used, width) - 1)
}

// Growth is how many times the experts of one token so many drafted tokens and
// the one before them use, if each chooses used of experts for itself. Without
// experts, every token counts.
func Growth(experts, used, width int) float64 {
	if experts <= 0 || used <= 0 {
		return float64(width + 1)
	}
	part := float64(used) / float64(experts)
	return (1 - math.Pow(1-part, float64(width+1))) / part
}

// drafting is the time of a draft when so many tokens are asked for.
func (c *costs) drafting(asked int) float64 {
	if !c.config.Sequential {
		asked = c.config.Max
	}
	if m := c.draft[asked]; m.all > 0 {
		return m.value()
	}
	for distance := 1; distance <= c.config.Max; distance++ {
		for _, other := range [2]int{asked - distance, asked + distance} {
			if other < 1 || other > c.config.Max || c.draft[other].all == 0 {
				continue
			}
			return c.draft[other].value() * float64(asked) / float64(other)
		}
	}
	return 0
}
