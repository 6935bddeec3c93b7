package dspark_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/les-project/les/lesext/dspark"
)

// world is a drafter and a target with known rates and costs.
type world struct {
	name       string
	accept     float64 // of each position, given those before
	confident  bool    // the drafter gives confidences, which differ from draft to draft
	optimism   float64 // added to what the drafter says, in parts of what is left to 1
	draft      float64 // time of a draft, in plain steps; of one token if sequential
	sequential bool
	token      float64 // what one more token costs in compute, in plain steps
	reads      float64 // the part of a plain step that is reads
	experts    int
	used       int
	noise      float64 // each step takes up to this part more or less
	cold       float64 // the first steps take so many times as long
	swing      float64 // the machine is up to so many times slower for a while
}

const (
	plainNS = 100_000_000
	depth   = 8
)

// stepNS is the time of a step that verifies so many tokens.
func (w world) stepNS(width int) float64 {
	growth := dspark.Growth(w.experts, w.used, width)
	return plainNS * ((1-w.reads)*(1+w.token*float64(width)) + w.reads*growth)
}

func (w world) draftNS(asked int) float64 {
	if asked == 0 {
		return 0
	}
	if w.sequential {
		return plainNS * w.draft * float64(asked)
	}
	return plainNS * w.draft
}

// chances are those of one draft: easy ones and hard ones in turn, if the
// drafter knows which are which.
func (w world) chances(r *rand.Rand) [depth]float64 {
	p := w.accept
	if w.confident {
		p = w.accept + 0.9*(r.Float64()-0.5)*2*min(w.accept, 1-w.accept)
	}
	var chances [depth]float64
	for i := range chances {
		chances[i] = p
	}
	return chances
}

// run decodes tokens and returns the rate after the first skip of them, in
// tokens a plain step.
func (w world) run(config dspark.Config, tokens, skip int, seed uint64) float64 {
	c, r := dspark.New(config), rand.New(rand.NewPCG(seed, 1))
	made, counted, elapsed := 0, 0, 0.0
	slow, left, steps := 1.0, 0, 0
	for made < tokens {
		step, confidences := dspark.Step{}, []float32(nil)
		asked := c.Next(depth)
		chances := w.chances(r)
		if asked > 0 {
			step.Drafted = asked
			for _, p := range chances[:asked] {
				if w.confident {
					confidences = append(confidences, float32(p+w.optimism*(1-p)))
				}
			}
			step.Verified = c.Verify(confidences, asked)
			for step.Accepted < step.Verified && r.Float64() < chances[step.Accepted] {
				step.Accepted++
			}
		}
		if left--; left < 0 {
			slow, left = 1+w.swing*r.Float64(), 20+r.IntN(150)
		}
		jitter := 1 + w.noise*(2*r.Float64()-1)
		if steps++; steps <= coldSteps {
			jitter *= 1 + w.cold
		}
		step.StepNS = int64(w.stepNS(step.Verified) * jitter * slow)
		step.DraftNS = int64(w.draftNS(asked) * slow)
		if w.experts > 0 {
			step.Experts = int64(10 * float64(w.used) * dspark.Growth(w.experts, w.used, step.Verified))
			step.ReadBytes = step.Experts << 20
		}
		c.Observe(step)
		made += 1 + step.Accepted
		if made > skip {
			counted += 1 + step.Accepted
			elapsed += float64(step.StepNS+step.DraftNS) / slow // what it did, not how the machine was
		}
	}
	return float64(counted) / elapsed * plainNS
}

func (w world) config() dspark.Config {
	return dspark.Config{Max: depth, Sequential: w.sequential, Experts: w.experts, Used: w.used}
}

// oracle is the rate of the best fixed width, none included, and that width.
func (w world) oracle() (rate float64, width int) {
	rate = 1
	for n := 1; n <= depth; n++ {
		tokens, survival := 0.0, 0.0
		const points = 400
		for i := range points { // chances are uniform where they differ
			p := w.accept
			if w.confident {
				p += 0.9 * (2*(float64(i)+0.5)/points - 1) * min(w.accept, 1-w.accept)
			}
			survival = 1
			for range n {
				survival *= p
				tokens += survival / points
			}
		}
		asked := depth
		if w.sequential {
			asked = n
		}
		if got := (1 + tokens) / (w.stepNS(n) + w.draftNS(asked)) * plainNS; got > rate {
			rate, width = got, n
		}
	}
	return rate, width
}

func worlds() (list []world) {
	for _, accept := range []float64{0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.97} {
		for _, cost := range []struct{ token, reads float64 }{{0.02, 0}, {0.15, 0}, {0.4, 0}, {0.9, 0}, {0.05, 0.5}, {0.1, 0.9}} {
			for _, shape := range [][2]int{{256, 8}, {24, 4}} {
				for _, draft := range []struct {
					ns         float64
					sequential bool
				}{{0.02, false}, {0.25, false}, {0.06, true}} {
					for _, confident := range []bool{false, true} {
						w := world{accept: accept, token: cost.token, reads: cost.reads, experts: shape[0], used: shape[1],
							draft: draft.ns, sequential: draft.sequential, confident: confident, noise: 0.15}
						w.name = fmt.Sprintf("accept=%g/token=%g/reads=%g/experts=%d/draft=%g/sequential=%t/confident=%t",
							accept, cost.token, cost.reads, shape[0], draft.ns, draft.sequential, confident)
						list = append(list, w)
					}
				}
			}
		}
	}
	return list
}

// coldSteps are the first ones, all but the last of which are plain.
const coldSteps = 5

const (
	simTokens = 6000
	simSeeds  = 3
	atLeast   = 0.965
	// Where the best width gains less than narrow, steps differ by more among
	// themselves than drafting is worth, and a part of the gain is not found.
	narrow        = 1.08
	atLeastNarrow = 0.95
	// atLeastCold is for a machine whose first steps mislead.
	atLeastCold = 0.93
	// atLeastSwinging is for a machine that is slower for a while.
	atLeastSwinging, meanSwinging = 0.80, 0.98
)

// TestControllerReachesTheBestFixedWidth is on worlds that do not change; the
// whole answer counts, learning included.
func TestControllerReachesTheBestFixedWidth(t *testing.T) {
	worst, sum, n := 2.0, 0.0, 0
	for _, w := range worlds() {
		best, width := w.oracle()
		rate := 0.0
		for seed := range uint64(simSeeds) {
			rate += w.run(w.config(), simTokens, 0, seed) / simSeeds
		}
		worst, sum, n = min(worst, rate/best), sum+rate/best, n+1
		least := atLeast
		if best < narrow && best > 1 {
			least = atLeastNarrow
		}
		if rate < least*best {
			t.Errorf("%s: %.3f, the best width is %d with %.3f: %.3f of it", w.name, rate, width, best, rate/best)
		}
	}
	t.Logf("%d worlds: worst %.3f, mean %.3f of the best fixed width", n, worst, sum/float64(n))
}

// TestAMachineThatSwingsIsSeenThrough has stretches of 20 to 170 steps in which
// all takes up to three times as long.
func TestAMachineThatSwingsIsSeenThrough(t *testing.T) {
	worst, sum, n := 2.0, 0.0, 0
	for _, w := range worlds() {
		best, width := w.oracle()
		w.swing = 2
		rate := w.run(w.config(), simTokens, 0, 1)
		worst, sum, n = min(worst, rate/best), sum+rate/best, n+1
		if rate < atLeastSwinging*best {
			t.Errorf("%s: %.3f, the best width is %d with %.3f: %.3f of it", w.name, rate, width, best, rate/best)
		}
	}
	if sum < meanSwinging*float64(n) {
		t.Errorf("%.3f of the best fixed width in the mean", sum/float64(n))
	}
	t.Logf("%d worlds: worst %.3f, mean %.3f of the best fixed width", n, worst, sum/float64(n))
}

// TestAColdStartIsForgotten has first steps that take four times as long, which
// nearly all are plain ones.
func TestAColdStartIsForgotten(t *testing.T) {
	for _, w := range worlds() {
		if best, _ := w.oracle(); best > 1 {
			continue
		}
		w.cold = 3
		if rate := w.run(w.config(), simTokens, 0, 5); rate < atLeastCold {
			t.Errorf("%s: %.3f of no drafting", w.name, rate)
		}
	}
}

// TestDraftingNeverCostsMuchAfterItWasLearnt leaves out the first tokens.
func TestDraftingNeverCostsMuchAfterItWasLearnt(t *testing.T) {
	const learnt = 256
	for _, w := range worlds() {
		if best, _ := w.oracle(); best > 1.1 {
			continue
		}
		if rate := w.run(w.config(), simTokens, learnt, 7); rate < atLeast {
			t.Errorf("%s: %.3f of no drafting", w.name, rate)
		}
	}
}
