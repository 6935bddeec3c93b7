package dspark_test

import (
	"fmt"
	"math"
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

// warmUp tokens of the short answers are not counted.
const warmUp = 8

// streamed are worlds with the costs of a model of the 35B-A3B shape whose experts
// are read from flash: a second token takes 0.6 or 0.75 of a plain step.
func streamed() (list []world) {
	for _, cost := range []struct{ token, reads float64 }{{0.1, 0.6}, {0.12, 0.75}} {
		for _, accept := range []float64{0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95} {
			for _, draft := range []struct {
				ns         float64
				sequential bool
			}{{0.001, false}, {0.05, false}, {0.03, true}} {
				for _, confident := range []bool{false, true} {
					w := world{accept: accept, token: cost.token, reads: cost.reads, experts: 256, used: 8,
						draft: draft.ns, sequential: draft.sequential, confident: confident, noise: 0.1}
					w.name = fmt.Sprintf("accept=%g/reads=%g/draft=%g/sequential=%t/confident=%t",
						accept, cost.reads, draft.ns, draft.sequential, confident)
					list = append(list, w)
				}
			}
		}
	}
	return list
}

// result is what a world gave: in tokens a plain step, and of its best width.
type result struct {
	world        world
	rate, ofBest float64
}

func (r result) String() string {
	best, width := r.world.oracle()
	return fmt.Sprintf("%s: %.3f, the best width is %d with %.3f: %.3f of it", r.world.name, r.rate, width, best, r.ofBest)
}

// results are those of many worlds.
type results struct {
	list        []result
	worst, mean float64
}

func (r results) String() string {
	return fmt.Sprintf("%d worlds: worst %.3f, mean %.3f of the best fixed width", len(r.list), r.worst, r.mean)
}

// compare runs each world with that many seeds.
func compare(list []world, tokens, skip int, seeds uint64) results {
	got := results{worst: math.Inf(1)}
	for _, w := range list {
		best, _ := w.oracle()
		rate := 0.0
		for seed := range seeds {
			rate += w.run(w.config(), tokens, skip, seed) / float64(seeds)
		}
		got.list = append(got.list, result{w, rate, rate / best})
		got.worst = min(got.worst, rate/best)
		got.mean += rate / best / float64(len(list))
	}
	return got
}

// coldSteps are the first ones, all but the last of which are plain.
const coldSteps = 5

const (
	simTokens = 6000
	simSeeds  = 5
	// atLeast of the best fixed width is reached by every world. Where that gains
	// less than narrow, steps differ by more among themselves than drafting is
	// worth, and a part of the gain is not found.
	atLeast       = 0.965
	narrow        = 1.08
	atLeastNarrow = 0.95
	// atLeastCold is for a machine whose first steps mislead.
	atLeastCold = 0.93
	// atLeastSwinging is for a machine that is slower for a while.
	atLeastSwinging, meanSwinging = 0.85, 0.985
	swingSeeds                    = 3
)

// TestControllerReachesTheBestFixedWidth is on worlds that do not change; the
// whole answer counts, learning included.
func TestControllerReachesTheBestFixedWidth(t *testing.T) {
	got := compare(worlds(), simTokens, 0, simSeeds)
	for _, r := range got.list {
		least := atLeast
		if best, _ := r.world.oracle(); best < narrow && best > 1 {
			least = atLeastNarrow
		}
		if r.ofBest < least {
			t.Errorf("%s", r)
		}
	}
	t.Logf("%s", got)
}

// TestShortAnswersOfALargeModelLoseLittle is where finding out is dear: wide
// steps read much, and an answer ends soon.
func TestShortAnswersOfALargeModelLoseLittle(t *testing.T) {
	for _, answer := range []struct {
		tokens               int
		mean, best, noDrafts float64 // of the best width in the mean and at least, of no drafts
	}{{48, 0.965, 0.93, 0.945}, {200, 0.98, 0.945, 0.97}, {600, 0.985, 0.96, 0.97}} {
		got := compare(streamed(), answer.tokens+warmUp, warmUp, 20)
		for _, r := range got.list {
			if r.ofBest < answer.best || r.rate < answer.noDrafts {
				t.Errorf("%d tokens: %s", answer.tokens, r)
			}
		}
		if got.mean < answer.mean {
			t.Errorf("%d tokens: %.3f of the best fixed width in the mean, at least %g is due", answer.tokens, got.mean, answer.mean)
		}
		t.Logf("%d tokens: %s", answer.tokens, got)
	}
}

// TestAMachineThatSwingsIsSeenThrough has stretches of 20 to 170 steps in which
// all takes up to three times as long.
func TestAMachineThatSwingsIsSeenThrough(t *testing.T) {
	swinging := worlds()
	for i := range swinging {
		swinging[i].swing = 2
	}
	got := compare(swinging, simTokens, 0, swingSeeds)
	for _, r := range got.list {
		if r.ofBest < atLeastSwinging {
			t.Errorf("%s", r)
		}
	}
	if got.mean < meanSwinging {
		t.Errorf("%.3f of the best fixed width in the mean, at least %g is due", got.mean, meanSwinging)
	}
	t.Logf("%s", got)
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
