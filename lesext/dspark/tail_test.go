package dspark

import "testing"

// shares are how often each position of a draft was seen, and was right.
func shares(a acceptance) (list [][2]float64) {
	for _, s := range a.position {
		list = append(list, [2]float64{s.all, s.yes})
	}
	return list
}

func TestTokensThatWereNotVerifiedAreComparedWithWhatFollows(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps []Step
		want  [][2]float64
	}{
		{"a draft of which nothing was verified", []Step{
			{Draft: []int32{1, 2, 9}, Token: 1}, {Token: 2}, {Token: 3}, {Token: 4},
		}, [][2]float64{{1, 1}, {1, 1}, {1, 0}}},
		{"the rest of one that was right so far", []Step{
			{Draft: []int32{1, 2, 3}, Verified: 1, Accepted: 1, Token: 2}, {Token: 3},
		}, [][2]float64{{0, 0}, {1, 1}, {1, 1}}},
		{"one that was refused tells nothing more", []Step{
			{Draft: []int32{9, 2, 3}, Verified: 1, Token: 1}, {Token: 2},
		}, [][2]float64{{0, 0}, {0, 0}, {0, 0}}},
		{"drafts that overlap", []Step{
			{Draft: []int32{1, 2, 3}, Token: 1}, {Draft: []int32{2, 3, 9}, Verified: 2, Accepted: 2, Token: 4},
		}, [][2]float64{{1, 1}, {1, 1}, {2, 1}}},
		{"one of more tokens than drafts have", []Step{
			{Draft: []int32{1, 2, 3, 4}, Token: 1}, {Token: 2}, {Token: 3}, {Token: 4},
		}, [][2]float64{{1, 1}, {1, 1}, {1, 1}}},
		{"a text that ends", []Step{
			{Draft: []int32{1, 2, 3}, Token: 1}, {Token: -1}, {Token: 3},
		}, [][2]float64{{1, 1}, {0, 0}, {0, 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			rest, a := newTails(3), newAcceptance(3)
			for _, s := range test.steps {
				rest.observe(s, nil, &a)
			}
			for i, got := range shares(a) {
				if got != test.want[i] {
					t.Errorf("position %d: seen and right %v, want %v", i, got, test.want[i])
				}
			}
		})
	}
}

func TestConfidencesOfTokensThatWereNotVerifiedAreLearnt(t *testing.T) {
	rest, a := newTails(2), newAcceptance(2)
	rest.observe(Step{Draft: []int32{1, 9}, Token: 1}, []float32{0.95, 0.15}, &a)
	rest.observe(Step{Token: 2}, nil, &a)
	if sure, unsure := a.bins[9], a.bins[1]; sure != (share{1, 1}) || unsure != (share{0, 1}) {
		t.Errorf("sure %v, unsure %v", sure, unsure)
	}
}

// What Verify was given belongs to one step, also where nothing is learnt from it.
func TestConfidencesEndWithTheirStep(t *testing.T) {
	for _, config := range []Config{{Max: 4}, {Max: 4, Fixed: 2}} {
		c := New(config)
		for range 2 * coldPlain {
			step := Step{Drafted: c.Next(4), StepNS: 100, Draft: []int32{1, 2, 3, 4}, Token: 9}
			step.Verified = c.Verify([]float32{0.5, 0.5, 0.5, 0.5}, 4)
			c.Observe(step)
			if len(c.given) != 0 {
				t.Fatalf("%+v: %v is left", config, c.given)
			}
		}
	}
}

func TestAskingForAShadowChangesNothing(t *testing.T) {
	c := New(Config{Max: 4})
	if n := c.shadow(); n != 4 || c.unseen {
		t.Errorf("%d tokens, unseen %v", n, c.unseen)
	}
}
