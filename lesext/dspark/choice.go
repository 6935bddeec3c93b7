package dspark

import "math"

// choose returns the best of the widths up to n, or one that is to be tried.
// before says that the draft is still to be made and its time counts.
func (c *Controller) choose(n int, before bool) int {
	best := c.best(n, before)
	if width := c.rung(n); width > best && (best == 0 || c.cost.step[best].all > 0) {
		c.trial = true
		return width
	}
	if c.config.Sequential && !before {
		return best // what is tried was asked for
	}
	rival := c.rival(n, best)
	c.budget -= c.value[best] - c.value[rival]
	c.trial = rival != best
	return rival
}

// rung is the first width of the ladder 1, 2, 4, ... that was not used yet and may
// pay; 0 if there is none or drafting has lost too much already to go on trying.
func (c *Controller) rung(n int) int {
	if c.mode.lost > limitTokens/2*c.cost.time(0) {
		return 0
	}
	c.accept.average(c.expected)
	for width := 1; width < 2*n; width *= 2 {
		if w := min(width, n); c.cost.step[w].all == 0 && c.mayPay(w) {
			return w
		}
	}
	return 0
}

// mayPay tells whether a width that was not used would reach the present rate if it
// took as little time as it may. Chances are in c.expected.
func (c *Controller) mayPay(width int) bool {
	tokens := 1.0
	for _, chance := range c.expected[:width] {
		tokens += chance
	}
	return tokens > c.rate()*(c.cost.least(width)+c.cost.drafting(width))
}

// best is the width up to n with most tokens for its time, at the rate that is
// reached: a token that comes later than that is not worth waiting for. The value
// of each width, in tokens more than at that rate, is in c.value; the survival of
// this draft is in c.survival.
func (c *Controller) best(n int, before bool) (best int) {
	rate, tokens := c.rate(), 1.0
	for width := 0; width <= n; width++ {
		if width > 0 {
			tokens += c.survival[width-1]
		}
		time := c.cost.time(width)
		if before {
			time += c.cost.drafting(width)
		}
		if c.value[width] = tokens - rate*time; c.value[width] > c.value[best] {
			best = width
		}
	}
	return best
}

// rival is the width that would be best if those that were used seldom are faster
// than they seemed, of those that may be tried for what is left of the budget.
func (c *Controller) rival(n, best int) (rival int) {
	rate, most := c.rate(), math.Inf(-1)
	for width := 0; width <= n; width++ {
		kind := c.value[width] + rate*c.cost.doubt(width)
		if c.value[best]-c.value[width] <= c.budget && kind > most {
			rival, most = width, kind
		}
	}
	return rival
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
