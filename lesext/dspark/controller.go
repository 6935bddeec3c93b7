// Package dspark decides how many drafted tokens a step of the target verifies.
//
// A wider step yields more tokens if they are accepted, and costs more compute
// and, with streamed experts, more reads. The Controller learns both sides: how
// likely the first n tokens of a draft are accepted, from the drafter's own
// confidences corrected by what became of them or from the history of each
// position, and what a step of each width takes. Drafted tokens that are not
// verified are compared with what the target writes later, so that what a drafter
// is worth shows without a wide step. It chooses the width that gives
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
	// learnPlain steps without drafted tokens come first: what drafting is measured by.
	learnPlain = 4
	// Drafts of which nothing is verified are compared with what the target writes:
	// they show what would be accepted and cost no more than themselves. They may take
	// shadowFirst of the first plain step and shadowShare of all later time. Those of a
	// sequential drafter have shadowSequential tokens.
	shadowFirst      = 0.5
	shadowShare      = 0.01
	shadowSequential = 2
	// sparseAfter steps in a row that verified nothing, or where drafts made
	// nothing faster, they are made at that rate.
	sparseAfter = 4
	// budgetFirst is what trials of other widths than the best are expected to cost at
	// most, in tokens, and budgetShare what each token adds, up to budgetMost.
	budgetFirst = 0.1
	budgetShare = 0.005
	budgetMost  = 4
	// closeEvery steps with drafted tokens in a row, one is without, since all is
	// measured by it, then after twice as many each time, up to plainEvery.
	closeEvery = 8
	plainEvery = 128
	// Where drafting gains less than closeGain, it takes closePlain plain steps to
	// tell gain from loss; their distance stays closeEvery until then.
	closeGain  = 1.25
	closePlain = 40
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
	// Draft are the drafted tokens, Token is the one that the target chose behind the
	// accepted ones, negative if there is none. They show what would have become of
	// drafted tokens that were not verified.
	Draft []int32
	Token int32
}

// Controller chooses widths for one sequence at a time.
type Controller struct {
	config Config
	accept acceptance
	cost   costs
	mode   mode
	drift  drift
	tails  tails

	asked    int       // of the drafter, for this step
	trial    bool      // this step's width is tried, not chosen
	unseen   bool      // nothing of this draft is verified
	shadows  float64   // nanoseconds that such drafts may take
	first    float64   // nanoseconds of the first step
	survival []float64 // of this draft, by position
	expected []float64 // of any draft
	value    []float64 // of each width
	given    []float32 // confidences of this draft
	budget   float64   // what trials may cost, in tokens
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
		budget:   budgetFirst,
		survival: make([]float64, config.Max),
		expected: make([]float64, config.Max),
		value:    make([]float64, config.Max+1),
		given:    make([]float32, 0, config.Max),
		tails:    newTails(config.Max),
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
	c.asked, c.trial, c.unseen = 0, false, false
	if !c.Drafting() || room <= 0 {
		return 0
	}
	switch {
	case c.config.Fixed > 0:
		c.asked = c.config.Fixed
	case c.learning():
		c.askUnseen()
	case c.plainDue():
	case c.config.Sequential:
		c.accept.average(c.survival)
		if c.asked = c.choose(c.config.Max, true); c.asked == 0 {
			c.askUnseen()
		}
	case c.mode.idle < sparseAfter && !c.slower() || c.shadow() > 0:
		c.asked = c.config.Max
	}
	c.asked = min(c.asked, room)
	return c.asked
}

// slower tells whether steps are no faster with drafts than without.
func (c *Controller) slower() bool {
	reached := c.mode.rate()
	return reached > 0 && reached*c.cost.time(0) <= 1
}

// learning tells whether steps are still without drafted tokens.
func (c *Controller) learning() bool { return c.cost.step[0].all < learnPlain-0.5 }

// askUnseen asks for the draft that shadow allows, of which nothing is verified.
func (c *Controller) askUnseen() {
	c.asked = c.shadow()
	c.unseen = c.asked > 0
}

// shadow is the draft to ask for beside a step that verifies nothing of it, to see
// what would have become of it: the first one, to know what it costs, and others
// while that is little.
func (c *Controller) shadow() int {
	n := c.config.Max
	if c.config.Sequential {
		n = min(n, shadowSequential)
	}
	if c.first > 0 && c.shadows < c.cost.drafting(n) {
		return 0
	}
	return n
}

// plainDue tells whether this step is to measure plain ones anew: after longer and
// longer runs of others, unless gain and loss are close.
func (c *Controller) plainDue() bool {
	known := c.cost.step[0].all
	every := min(plainEvery, closeEvery*math.Exp2(math.Round(known)-learnPlain))
	if known < closePlain && c.promise()*c.cost.time(0) < closeGain {
		every = closeEvery
	}
	return float64(c.mode.wide) >= every
}

// Verify returns how many of n drafted tokens are worth a step. confidences are
// those of the drafter, or empty; they are kept until Observe.
func (c *Controller) Verify(confidences []float32, n int) int {
	if n = min(n, c.config.Max); c.config.Sequential {
		n = min(n, c.asked) // what more there is was not worth asking for
	}
	c.given = append(c.given[:0], confidences[:min(len(confidences), n)]...)
	if c.config.Fixed > 0 {
		return min(n, c.config.Fixed)
	}
	if n == 0 || c.unseen {
		return 0
	}
	c.accept.survival(c.given, c.survival[:n])
	if c.config.Sequential && (c.trial || len(c.given) == 0) {
		return n
	}
	return c.choose(n, false)
}

// Observe learns from a step, and ends it.
func (c *Controller) Observe(s Step) {
	c.learn(s)
	c.given = c.given[:0]
}

func (c *Controller) learn(s Step) {
	c.count.add(s, c.given)
	c.accept.observe(s, c.given)
	c.tails.observe(s, c.given, &c.accept)
	c.spend(s)
	if c.cold < coldPlain && c.config.Fixed == 0 {
		c.cold++
		return
	}
	s = c.steady(s)
	c.cost.observe(s)
	if c.config.Fixed > 0 {
		return
	}
	c.budget = min(budgetMost, c.budget+budgetShare*float64(1+s.Accepted))
	c.mode.observe(verdict{
		step: s, plain: c.cost.time(0),
		known: !c.learning(), hope: c.hope(),
	})
	if c.mode.began {
		c.accept.forget()
	}
}

// spend accounts for a draft, and for the time that drafts of which nothing is
// verified may take.
func (c *Controller) spend(s Step) {
	step := float64(s.StepNS)
	if c.first == 0 {
		c.first, c.shadows = step, shadowFirst*step
	}
	c.shadows = min(shadowFirst*c.first, c.shadows+shadowShare*step)
	if c.asked == 0 {
		return
	}
	c.cost.drafted(s.DraftNS, c.asked)
	if s.Verified == 0 {
		c.shadows = max(0, c.shadows-float64(s.DraftNS))
	}
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
	c.tails.drop()
}

// Stats are the counts since New or ResetStats.
func (c *Controller) Stats() Stats { return c.count.clone() }

// ResetStats begins to count anew; what was learnt stays.
func (c *Controller) ResetStats() { c.count = newStats(c.config.Max) }
