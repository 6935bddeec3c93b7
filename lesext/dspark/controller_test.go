package dspark_test

import (
	"slices"
	"testing"

	"github.com/les-project/les/lesext/dspark"
)

// feed runs steps of a drafter whose first accepted tokens are right.
func feed(c *dspark.Controller, steps, accepted int, stepNS func(width int) int64) (widths []int) {
	for range steps {
		s := dspark.Step{Drafted: c.Next(8)}
		s.Draft = draftOf(s.Drafted, accepted)
		s.Verified = c.Verify(nil, s.Drafted)
		s.Accepted = min(accepted, s.Verified)
		s.StepNS, s.DraftNS = stepNS(s.Verified), int64(s.Drafted)*plainNS/100
		c.Observe(s)
		widths = append(widths, s.Verified)
	}
	return widths
}

// draftOf is a draft of n tokens, the first of which are right.
func draftOf(n, accepted int) []int32 {
	draft := make([]int32, n)
	for i := range draft {
		if i >= accepted {
			draft[i] = wrong
		}
	}
	return draft
}

// flat is a target whose wide steps cost a tenth more for each token.
func flat(width int) int64 { return plainNS + int64(width)*plainNS/10 }

// steep is one whose tokens cost the same wherever they are.
func steep(width int) int64 { return int64(width+1) * plainNS * 11 / 10 }

func TestWidthIsWhatIsAccepted(t *testing.T) {
	for _, test := range []struct {
		name     string
		accepted int
		stepNS   func(int) int64
		want     int
	}{
		{"all right", 8, flat, 8},
		{"the first three are right", 3, flat, 3},
		{"none is right", 0, flat, 0},
		{"all right but not cheaper", 8, steep, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			widths := feed(dspark.New(dspark.Config{Max: 8}), 600, test.accepted, test.stepNS)
			slices.Sort(widths[300:])
			if got := widths[450]; got != test.want {
				t.Errorf("the middle width is %d, want %d", got, test.want)
			}
		})
	}
}

func TestDraftingEndsWithinABoundedLossAndIsProbedAgain(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8})
	lost, worst, probes := 0.0, 0.0, 0
	drafting := true
	for step := range 4000 {
		s := dspark.Step{Drafted: c.Next(8), DraftNS: plainNS / 2}
		s.Draft = draftOf(s.Drafted, 0)
		s.Verified = c.Verify(nil, s.Drafted)
		s.StepNS = steep(s.Verified)
		if s.Drafted == 0 {
			s.DraftNS, s.StepNS = 0, plainNS
		}
		c.Observe(s)
		lost += float64(s.StepNS+s.DraftNS)/plainNS - 1
		if c.Drafting() && !drafting {
			probes, lost = probes+1, 0
		}
		drafting = c.Drafting()
		worst = max(worst, lost)
		if step == 100 && drafting {
			t.Fatal("still drafting after 100 steps that all lose")
		}
	}
	// Twice the limit, and a step of the greatest width.
	if most := 2*8.0 + 10; worst > most {
		t.Errorf("one trial lost %.1f plain tokens, at most %.0f are allowed", worst, most)
	}
	if probes < 2 || probes > 6 {
		t.Errorf("%d probes in 4000 tokens", probes)
	}
}

func TestProbeFindsADrafterThatBecameGood(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8})
	feed(c, 400, 0, flat)
	widths := feed(c, 1500, 8, flat)
	if last := widths[len(widths)-100:]; slices.Max(last) != 8 {
		t.Errorf("the last widths are %v", last)
	}
}

func TestConfidencesAreCorrectedByWhatBecameOfThem(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 4})
	sure, unsure := []float32{0.95, 0.95, 0.95, 0.95}, []float32{0.15, 0.15, 0.15, 0.15}
	widths := map[bool]int{}
	for i := range 800 {
		liar := i%2 == 0 // what it is sure of is wrong, the rest right
		confidences, accepted := unsure, 4
		if liar {
			confidences, accepted = sure, 0
		}
		s := dspark.Step{Drafted: c.Next(4)}
		s.Draft = draftOf(s.Drafted, accepted)
		s.Verified = c.Verify(confidences[:s.Drafted], s.Drafted)
		s.Accepted = min(accepted, s.Verified)
		s.StepNS = flat(s.Verified)
		c.Observe(s)
		if i >= 700 {
			widths[liar] += s.Verified
		}
	}
	if widths[true] > 20 || widths[false] < 150 {
		t.Errorf("50 drafts each: %d tokens verified of those that lie, %d of those that tell the truth", widths[true], widths[false])
	}
}

func TestFixedWidthIsAlwaysDrafted(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8, Fixed: 3})
	for _, width := range feed(c, 200, 0, steep) {
		if width != 3 {
			t.Fatalf("width %d", width)
		}
	}
}

func TestSequentialDrafterIsAskedForWhatIsVerified(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8, Sequential: true})
	asked := 0
	for range 400 {
		s := dspark.Step{Drafted: c.Next(8)}
		asked, s.Draft = s.Drafted, draftOf(s.Drafted, 2)
		if s.Verified = c.Verify(nil, s.Drafted); s.Verified != s.Drafted && s.Verified > 0 {
			t.Fatalf("%d tokens drafted, %d verified", s.Drafted, s.Verified)
		}
		s.Accepted = min(2, s.Verified)
		s.StepNS, s.DraftNS = flat(s.Verified), int64(s.Drafted)*plainNS/20
		c.Observe(s)
	}
	if asked > 3 {
		t.Errorf("%d tokens asked for where 2 are right", asked)
	}
}

func TestStandstillSaysNothingAboutWidths(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8})
	feed(c, 300, 8, flat)
	c.Observe(dspark.Step{Drafted: c.Next(8), Draft: draftOf(8, 8), Verified: c.Verify(nil, 8), Accepted: 8, StepNS: 300 * plainNS})
	widths := feed(c, 100, 8, flat)
	if slices.Sort(widths); widths[50] < 7 {
		t.Errorf("after a step of 300 times the time, the middle width is %d", widths[50])
	}
}

func TestRoomBoundsTheDraft(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8})
	feed(c, 100, 8, flat)
	for range 20 {
		if n := c.Next(2); n > 2 {
			t.Fatalf("%d tokens where 2 fit", n)
		}
		c.Observe(dspark.Step{StepNS: plainNS})
	}
}

func TestStatsAddUp(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8})
	feed(c, 500, 4, flat)
	s := c.Stats()
	var steps, accepted int64
	for _, w := range s.Widths {
		steps, accepted = steps+w.Steps, accepted+w.Accepted
	}
	if s.Steps != 500 || steps != 500 || accepted != s.Accepted || s.Accepted > s.Verified || s.Verified > s.Drafted {
		t.Errorf("%+v", s)
	}
}

func TestNoAllocationInSteadyState(t *testing.T) {
	c := dspark.New(dspark.Config{Max: 8, Experts: 256, Used: 8})
	confidences := []float32{0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2}
	draft := draftOf(8, 4)
	step := func() {
		s := dspark.Step{Drafted: c.Next(8)}
		s.Draft = draft[:s.Drafted]
		s.Verified = c.Verify(confidences, s.Drafted)
		s.Accepted, s.StepNS, s.Experts = min(4, s.Verified), flat(s.Verified), 8
		c.Observe(s)
	}
	if n := testing.AllocsPerRun(500, step); n > 0 {
		t.Errorf("%.2f allocations a step", n)
	}
}

func TestBadConfigurationIsRefused(t *testing.T) {
	for _, config := range []dspark.Config{{}, {Max: 65}, {Max: 4, Fixed: 5}, {Max: 4, Fixed: -1}} {
		if config.Validate() == nil {
			t.Errorf("%+v is taken", config)
		}
	}
}
