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
	follow     float64 // to keep the drafter up to date, in plain steps, each step
	sequential bool
	token      float64 // what one more token costs in compute, in plain steps
	reads      float64 // the part of a plain step that is reads
	experts    int
	used       int
	noise      float64 // each step takes up to this part more or less
	cold       float64 // the first steps take so many times as long
	swing      float64 // the machine is up to so many times slower for a while
	// steps, if not nil, are the times by width.
	steps []float64
}

const (
	plainNS = 100_000_000
	depth   = 8
)

// stepNS is the time of a step that verifies so many tokens.
func (w world) stepNS(width int) float64 {
	if w.steps != nil {
		return plainNS * w.steps[width]
	}
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

// text is what a target writes: how likely the drafter knows each token, and
// whether it does. Every draft of a token meets the same luck, as in a real text,
// where some tokens are easy and some are hard.
type text struct {
	chances []float64
	known   []bool
}

func (w world) text(tokens int, seed uint64) text {
	r := rand.New(rand.NewPCG(seed, 2))
	t := text{make([]float64, tokens), make([]bool, tokens)}
	for i := range tokens {
		p := w.accept
		if w.confident {
			p += 0.9 * (2*r.Float64() - 1) * min(w.accept, 1-w.accept)
		}
		t.chances[i], t.known[i] = p, r.Float64() < p
	}
	return t
}

// draft is one of tokens from a place in the text on.
func (t text) draft(from, tokens int) []int32 {
	draft := make([]int32, tokens)
	for i := range draft {
		if !t.known[from+i] {
			draft[i] = wrong
		}
	}
	return draft
}

// The target of a simulation always says right.
const right, wrong = 0, 1

// run decodes tokens and returns the rate after the first skip of them, in
// tokens a plain step.
func (w world) run(config dspark.Config, tokens, skip int, seed uint64) float64 {
	c, r := dspark.New(config), rand.New(rand.NewPCG(seed, 1))
	text := w.text(tokens+2*depth, seed)
	made, counted, elapsed := 0, 0, 0.0
	slow, left, steps := 1.0, 0, 0
	for made < tokens {
		step, confidences := dspark.Step{}, []float32(nil)
		asked := c.Next(depth)
		if asked > 0 {
			step.Drafted = asked
			for _, p := range text.chances[made : made+asked] {
				if w.confident {
					confidences = append(confidences, float32(p+w.optimism*(1-p)))
				}
			}
			step.Verified = c.Verify(confidences, asked)
			step.Draft = text.draft(made, asked)
			for step.Accepted < step.Verified && step.Draft[step.Accepted] == right {
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
		if c.Drafting() {
			step.DraftNS += int64(w.follow * plainNS * slow)
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
		tokens := 0.0
		for i := range n {
			tokens += math.Pow(w.accept, float64(i+1))
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

// drafters are those of the short answers.
var drafters = []struct {
	ns         float64
	sequential bool
}{{0.001, false}, {0.05, false}, {0.03, true}}

// flash are worlds with the costs of a model of the 35B-A3B shape whose experts
// are read from flash: a second token takes 0.6 or 0.75 of a plain step.
func flash() (list []world) {
	for _, cost := range []struct{ token, reads float64 }{{0.1, 0.6}, {0.12, 0.75}} {
		w := world{token: cost.token, reads: cost.reads, experts: 256, used: 8}
		w.name = fmt.Sprintf("reads=%g", cost.reads)
		list = append(list, w.drafted()...)
	}
	return list
}

// measured are machines whose steps were measured on that shape, with 8 slots a
// layer, at full bandwidth and at 1 GiB/s, and what 64 slots would make of it.
func measured() (list []world) {
	for name, steps := range map[string][]float64{
		"full bandwidth": {1, 1.58, 2.12, 2.68, 3.10, 3.60, 4.04, 4.70, 5.3},
		"1 GiB/s":        {1, 1.76, 2.52, 3.09, 3.51, 4.05, 4.64, 5.28, 5.9},
		"64 slots":       {1, 1.35, 1.66, 1.95, 2.2, 2.45, 2.7, 2.9, 3.1},
	} {
		list = append(list, world{name: name, steps: steps, experts: 256, used: 8}.drafted()...)
	}
	return list
}

// drafted is the world with drafters of all kinds.
func (w world) drafted() (list []world) {
	for _, accept := range []float64{0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95} {
		for _, draft := range drafters {
			for _, confident := range []bool{false, true} {
				d := w
				d.accept, d.draft, d.sequential, d.confident, d.noise = accept, draft.ns, draft.sequential, confident, 0.1
				d.follow = draft.ns / 5
				d.name = fmt.Sprintf("%s/accept=%g/draft=%g/sequential=%t/confident=%t",
					w.name, accept, draft.ns, draft.sequential, confident)
				list = append(list, d)
			}
		}
	}
	return list
}

// result is what a world gave, in parts of its best fixed width and of no drafts.
type result struct {
	world           world
	ofBest, ofPlain float64
}

func (r result) String() string {
	best, width := r.world.oracle()
	return fmt.Sprintf("%s: %.3f of the best width, which is %d with %.3f", r.world.name, r.ofBest, width, best)
}

// results are those of many worlds.
type results struct {
	list        []result
	worst, mean float64
}

func (r results) String() string {
	return fmt.Sprintf("%d worlds: worst %.3f, mean %.3f of the best fixed width", len(r.list), r.worst, r.mean)
}

// answers are what is compared: their tokens, how many of them are not counted, and
// the texts, by seed.
type answers struct{ tokens, skip, seeds int }

// compare runs each world with the controller and with the best fixed width, on
// the same texts.
func (a answers) compare(list []world) results {
	got := results{worst: math.Inf(1)}
	for _, w := range list {
		_, width := w.oracle()
		fixed := w.config()
		fixed.Fixed = width
		took, best := 0.0, 0.0
		for seed := range uint64(a.seeds) {
			took += 1 / w.run(w.config(), a.tokens, a.skip, seed)
			if width == 0 {
				best++
			} else {
				best += 1 / w.run(fixed, a.tokens, a.skip, seed)
			}
		}
		r := result{w, best / took, float64(a.seeds) / took}
		got.list = append(got.list, r)
		got.worst = min(got.worst, r.ofBest)
		got.mean += r.ofBest / float64(len(list))
	}
	return got
}

// coldSteps are the first ones, all but the last of which are plain.
const coldSteps = 5

const simTokens = 6000

// TestControllerReachesTheBestFixedWidth is on worlds that do not change; the
// whole answer counts, learning included.
func TestControllerReachesTheBestFixedWidth(t *testing.T) {
	got := answers{simTokens, 0, 3}.compare(worlds())
	for _, r := range got.list {
		if r.ofBest < 0.965 {
			t.Errorf("%s", r)
		}
	}
	t.Logf("%s", got)
}

// TestShortAnswersOfALargeModelLoseLittle is where finding out is dear: wide
// steps read much, and an answer ends before all is known.
func TestShortAnswersOfALargeModelLoseLittle(t *testing.T) {
	for _, answer := range []struct {
		tokens               int
		mean, best, noDrafts float64 // of the best width in the mean and at least, of no drafts
	}{{48, 0.96, 0.89, 0.93}, {200, 0.98, 0.93, 0.96}, {600, 0.99, 0.955, 0.97}} {
		got := answers{answer.tokens + warmUp, warmUp, 50}.compare(append(flash(), measured()...))
		for _, r := range got.list {
			if r.ofBest < answer.best || r.ofPlain < answer.noDrafts {
				t.Errorf("%d tokens: %s, %.3f of no drafts", answer.tokens, r, r.ofPlain)
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
	got := answers{simTokens, 0, 3}.compare(swinging)
	for _, r := range got.list {
		if r.ofBest < 0.9 {
			t.Errorf("%s", r)
		}
	}
	if got.mean < 0.985 {
		t.Errorf("%.3f of the best fixed width in the mean, at least 0.985 is due", got.mean)
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
		if rate := w.run(w.config(), simTokens, 0, 5); rate < 0.93 {
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
		if rate := w.run(w.config(), simTokens, learnt, 7); rate < 0.965 {
			t.Errorf("%s: %.3f of no drafting", w.name, rate)
		}
	}
}
