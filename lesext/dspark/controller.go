// Package dspark decides how many drafted tokens a step of the target verifies.
//
// A wider step yields more tokens if they are accepted, and costs more compute
// and, with streamed experts, more reads. The Controller learns both sides: how
// likely the first n tokens of a draft are accepted, from the drafter's own
// confidences corrected by what became of them or from the history of each
// position, and what a step of each width takes. It chooses the width that gives
// most tokens a second, none included, and stops drafting where it loses.
//
// Times and counts are passed in; the package has no clock, no lock and does not
// print. The caller serialises all calls. All memory is taken by New.
//
// For each step: Next, a draft of what it asks for, Verify, the step, Observe.
package dspark

import (
	"fmt"
	"math"
)

// WidthMax is the most drafted tokens a step can have.
const WidthMax = 64

const (
	// coldPlain steps are not measured at all: the machine is cold then, the cache
	// empty, and drafting would be compared with that.
	coldPlain = 4
	// learnPlain steps without a draft come first: what drafting is measured by.
	learnPlain = 4
	// rungSteps is how often each width of the ladder 1, 2, 4, ... is used before
	// the controller trusts its own estimates.
	rungSteps = 2
	// curiousSteps of one drafted token tell enough of the drafter.
	curiousSteps = 6
	// maybe is the part by which the time of a width that was not used yet may be
	// overestimated: a rung that would not even pay then is not tried. In a large
	// streamed model a step of nine tokens can take as long as five plain ones.
	maybe = 0.15
	// exploreEvery steps, a width has a turn that would be best if its time was
	// overestimated; by how much is likely falls with the root of its steps.
	exploreEvery = 12
	doubtful     = 0.2
	// plainEvery steps while drafting, one is plain, since all is measured by it.
	plainEvery = 128
	// Where drafting gains less than closeGain, it takes closePlain plain steps to
	// tell gain from loss; one of closeEvery steps is one until then.
	closeGain  = 1.25
	closeEvery = 8
	closePlain = 40
	// What is left of the cold in the first plain steps makes drafting look better
	// than it is: until firstPlain are known, one of closeEvery steps is plain
	// whatever drafting gains.
	firstPlain = 12
)

// Config describes the drafter and the target.
type Config struct {
	Max int // most drafted tokens a step, 1 to WidthMax
	// Sequential drafters take longer for more tokens, so they are asked for no
	// more than are to be verified. Others give all of their block at once.
	Sequential bool
	// Experts of a layer and those that a token uses; zero for a model without.
	// They give the first guess of what a wider step costs.
	Experts, Used int
	// Fixed, if above 0, always drafts and verifies that many tokens: what the
	// controller is measured against.
	Fixed int
}

// Validate tells what is wrong with a configuration.
func (c Config) Validate() error {
	switch {
	case c.Max < 1 || c.Max > WidthMax:
		return fmt.Errorf("dspark: a draft of %d tokens is not between 1 and %d", c.Max, WidthMax)
	case c.Fixed < 0 || c.Fixed > c.Max:
		return fmt.Errorf("dspark: a fixed width of %d is not between 0 and %d", c.Fixed, c.Max)
	}
	return nil
}

// Step is what became of one step of the target.
type Step struct {
	Drafted  int // tokens that the drafter gave
	Verified int // of them in the step, as Verify said
	Accepted int // leading ones that the target agreed with
	// DraftNS is the time of drafting and of keeping the drafter up to date,
	// StepNS the time of the target's step.
	DraftNS, StepNS int64
	Experts         int64 // distinct experts the step used, over all layers
	ReadBytes       int64 // read from the file for it
}

// Controller chooses widths for one sequence at a time.
type Controller struct {
	config Config
	accept acceptance
	cost   costs
	mode   mode
	drift  drift

	asked    int       // of the drafter, for this step
	trial    bool      // this step's width is tried, not chosen
	survival []float64 // of this draft, by position
	expected []float64 // of any draft
	given    []float32 // confidences of this draft
	explored int       // steps since another width had a turn
	cold     int       // steps that were not measured
	count    Stats
}

// New returns a controller. The configuration must be valid.
func New(config Config) *Controller {
	if err := config.Validate(); err != nil {
		panic(err.Error())
	}
	return &Controller{
		config:   config,
		accept:   newAcceptance(config.Max),
		cost:     newCosts(config),
		mode:     newMode(),
		survival: make([]float64, config.Max),
		expected: make([]float64, config.Max),
		given:    make([]float32, 0, config.Max),
		count:    newStats(config.Max),
	}
}

// Config is what New was given.
func (c *Controller) Config() Config { return c.config }

// Drafting tells whether the drafter is in use. While it is not, it need not be
// kept up to date.
func (c *Controller) Drafting() bool { return c.config.Fixed > 0 || c.mode.on }

// Next returns how many tokens to ask the drafter for; 0 is a plain step. No
// more than room would fit.
func (c *Controller) Next(room int) int {
	c.asked, c.trial = 0, false
	if !c.Drafting() || room <= 0 {
		return 0
	}
	switch {
	case c.config.Fixed > 0:
		c.asked = c.config.Fixed
	case c.plainDue():
	case c.config.Sequential:
		c.accept.average(c.survival)
		c.asked = c.choose(c.config.Max, true)
	default:
		c.asked = c.config.Max
	}
	c.asked = min(c.asked, room)
	return c.asked
}

// plainDue tells whether this step is to measure what is gained.
func (c *Controller) plainDue() bool {
	known, drafted := c.cost.step[0].all, c.mode.drafted
	switch {
	case known < learnPlain:
		return true
	case drafted == 0:
		return false
	case known < firstPlain:
		return drafted%closeEvery == 0
	case known < closePlain && c.promise()*c.cost.time(0) < closeGain:
		return drafted%closeEvery == 0
	}
	return drafted%plainEvery == 0
}

// Verify returns how many of n drafted tokens are worth a step. confidences are
// those of the drafter, or empty; they are kept until Observe.
func (c *Controller) Verify(confidences []float32, n int) int {
	n = min(n, c.config.Max)
	c.given = append(c.given[:0], confidences[:min(len(confidences), n)]...)
	if c.config.Fixed > 0 {
		return min(n, c.config.Fixed)
	}
	if n == 0 {
		return 0
	}
	c.accept.survival(c.given, c.survival[:n])
	if c.config.Sequential && (c.trial || len(c.given) == 0) {
		return n
	}
	return c.choose(n, false)
}

// choose returns the best of the widths up to n, or one that is to be tried.
// before says that the draft is still to be made and its time counts.
func (c *Controller) choose(n int, before bool) int {
	if width := c.rung(n); width > 0 {
		c.trial = true
		return width
	}
	best, rival := c.best(n, before)
	if c.config.Sequential && !before {
		return best // what is tried was asked for
	}
	if c.explored++; c.explored < exploreEvery || rival == best {
		return best
	}
	c.explored, c.trial = 0, true
	return rival
}

// rung is the first width of the ladder that is not known yet, if it may pay; 0
// if all are known or drafting has lost too much already to go on trying.
func (c *Controller) rung(n int) int {
	if c.mode.lost > limitTokens/2*c.cost.time(0) {
		return 0
	}
	for width := 1; width < 2*n; width *= 2 {
		if w := min(width, n); c.cost.step[w].all < rungSteps {
			if w > 1 && !c.mayPay(w) {
				return c.curious()
			}
			return w
		}
	}
	return 0
}

// curious is 1 while wider steps are not worth trying by what is known of the
// drafter, which is little, and may be by what is not: one token more is the
// cheapest way to know more.
func (c *Controller) curious() int {
	if c.cost.step[1].all < curiousSteps && c.hope() > noHope/c.cost.time(0) {
		return 1
	}
	return 0
}

// mayPay tells whether a width that was not used would reach the present rate if
// it took less time than is thought.
func (c *Controller) mayPay(width int) bool {
	c.accept.average(c.expected)
	tokens := 1.0
	for _, chance := range c.expected[:width] {
		tokens += chance
	}
	return tokens > c.rate()*((1-maybe)*c.cost.time(width)+c.cost.drafting(width))
}

// best is the width up to n with most tokens for its time, at the rate that is
// reached: a token that comes later than that is not worth waiting for. rival is
// the best one if those that were used seldom are faster than they seemed. The
// survival of this draft is in c.survival.
func (c *Controller) best(n int, before bool) (best, rival int) {
	rate := c.rate()
	most, mostRival := 0.0, 0.0
	tokens := 1.0
	for width := 0; width <= n; width++ {
		if width > 0 {
			tokens += c.survival[width-1]
		}
		time := c.cost.time(width)
		doubt := time * doubtful / math.Sqrt(1+c.cost.step[width].all)
		if before {
			time += c.cost.drafting(width)
		}
		value := tokens - rate*time
		if width == 0 || value > most {
			best, most = width, value
		}
		if width == 0 || value+rate*doubt > mostRival {
			rival, mostRival = width, value+rate*doubt
		}
	}
	return best, rival
}

// rate is the tokens a nanosecond that can be had: what plain steps give, or what
// is reached while drafting; until that is known, what the estimates promise.
// Later these are no measure: positions are verified where they promise most.
func (c *Controller) rate() float64 {
	reached := c.mode.rate()
	if reached == 0 {
		reached = c.promise()
	}
	return max(1/c.cost.time(0), reached)
}

// promise is the best rate of a fixed width, by the estimates.
func (c *Controller) promise() float64 {
	c.accept.average(c.expected)
	return c.bestFixed()
}

// hope is the best rate of a fixed width if all that is not known is favourable.
func (c *Controller) hope() float64 {
	c.accept.hopeful(c.expected)
	return c.bestFixed()
}

// bestFixed is the best rate of a fixed width at the acceptance in c.expected.
func (c *Controller) bestFixed() float64 {
	best, tokens := 0.0, 1.0
	for width := 1; width <= c.config.Max; width++ {
		tokens += c.expected[width-1]
		best = max(best, tokens/(c.cost.time(width)+c.cost.drafting(width)))
	}
	return best
}

// Observe learns from a step.
func (c *Controller) Observe(s Step) {
	c.count.add(s, c.given)
	if c.cold < coldPlain && c.config.Fixed == 0 {
		c.cold++
		return
	}
	s = c.steady(s)
	c.cost.observe(s, c.asked)
	c.accept.observe(s, c.given)
	if c.config.Fixed > 0 {
		return
	}
	c.mode.observe(verdict{
		step: s, asked: c.asked, plain: c.cost.time(0),
		known: c.cost.step[0].all >= learnPlain, hope: c.hope(),
	})
	if c.mode.began {
		c.accept.forget()
	}
	c.given = c.given[:0]
}

// steady is the step as it would usually have been.
func (c *Controller) steady(s Step) Step {
	if known := c.cost.step[s.Verified]; known.all >= driftSteps {
		c.drift.observe(s.StepNS, known.value())
	}
	s.StepNS, s.DraftNS = c.drift.remove(s.StepNS), c.drift.remove(s.DraftNS)
	return s
}

// Begin starts a new request: nothing of a draft that was not verified is left.
// What was learnt of the machine and the drafter stays.
func (c *Controller) Begin() {
	c.asked, c.given = 0, c.given[:0]
}

// Stats are the counts since New or ResetStats.
func (c *Controller) Stats() Stats { return c.count.clone() }

// ResetStats begins to count anew; what was learnt stays.
func (c *Controller) ResetStats() { c.count = newStats(c.config.Max) }
