package tune

import (
	"math"
	"math/rand/v2"
	"testing"
)

// drive runs steps whose time depends on the setting, with noise and drift, and
// returns how many ran with each setting.
func drive(c *Chooser, steps int, cost []int64) []int {
	noise := rand.New(rand.NewPCG(1, 2))
	ran := make([]int, len(cost))
	now := int64(0)
	for i := range steps {
		setting := c.Step(now, 1)
		ran[setting]++
		drift := int64(i % 1000 / 10)
		now += cost[setting] + drift + noise.Int64N(cost[setting]/10)
	}
	return ran
}

func TestTheFasterSettingIsFound(t *testing.T) {
	for _, test := range []struct {
		name string
		cost []int64
		want int
	}{
		{"last is best", []int64{1200, 1100, 1000}, 2},
		{"first is best", []int64{1000, 1100, 1200}, 0},
		{"middle is best", []int64{1200, 1000, 1200}, 1},
		{"one only", []int64{1000}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for first := range test.cost {
				c := New(len(test.cost), first, 1)
				drive(c, 3000, test.cost)
				if c.Best() != test.want {
					t.Errorf("begun with %d: chose %d, want %d", first, c.Best(), test.want)
				}
			}
		})
	}
}

// TestStepsOfSeveralTokensAreComparedWithTheirLike has steps of one and of eight
// tokens, of which one side has more by chance.
func TestStepsOfSeveralTokensAreComparedWithTheirLike(t *testing.T) {
	run := func(cost []int64, seed uint64) int {
		noise := rand.New(rand.NewPCG(seed, 4))
		c := New(len(cost), 0, 8)
		for now, setting := int64(0), 0; now < 3000_000; {
			width := int64(1)
			if noise.IntN(3) == 0 {
				width = 8
			}
			setting = c.Step(now, int(width))
			now += cost[setting]*width/2 + noise.Int64N(50)
		}
		return c.Best()
	}
	const runs = 100
	moved, found := 0, 0
	for seed := range uint64(runs) {
		moved += run([]int64{1000, 1000}, seed)
		found += run([]int64{1000, 900}, seed)
	}
	if moved > runs/20 || found < runs*9/10 {
		t.Errorf("of %d runs %d moved without gain, %d found a gain of a tenth", runs, moved, found)
	}
}

func TestEqualSettingsStayAsTheyAre(t *testing.T) {
	c := New(3, 2, 1)
	drive(c, 20000, []int64{1000, 1000, 1000})
	if c.Best() != 2 {
		t.Errorf("moved to setting %d without gain", c.Best())
	}
}

func TestTrialsOfASettledChoiceAreRare(t *testing.T) {
	c := New(2, 0, 1)
	ran := drive(c, 20000, []int64{1000, 1100})
	if share := float64(ran[1]) / 20000; share > 0.02 {
		t.Errorf("%.1f %% of the steps ran with the worse setting, want at most 2 %%", 100*share)
	}
}

func TestAClearDifferenceEndsATrialEarly(t *testing.T) {
	const trial = 2*clearPairs*blockSteps + 2*settleSteps
	for _, test := range []struct {
		cost []int64
		best int
	}{{[]int64{1000, 1400}, 0}, {[]int64{1000, 700}, 1}} {
		c := New(2, 0, 1)
		ran := drive(c, firstSteps+trial+1, test.cost)
		if c.block >= 0 || c.Best() != test.best || ran[0]+ran[1] != firstSteps+trial+1 {
			t.Errorf("costs %v: chose %d, trial at block %d after %v steps", test.cost, c.Best(), c.block, ran)
		}
	}
}

func TestAFillingCacheFavoursNeitherSide(t *testing.T) {
	const runs = 100
	moved := 0
	for seed := range uint64(runs) {
		noise := rand.New(rand.NewPCG(seed, 3))
		c := New(2, 0, 1)
		for i, now := 0, int64(0); i < 120; i++ {
			c.Step(now, 1)
			now += 1000 + int64(1000*math.Exp(-float64(i)/30)) + noise.Int64N(100)
		}
		moved += c.Best()
	}
	if moved > runs*2/5 {
		t.Errorf("moved without gain in %d of %d runs while the cache filled", moved, runs)
	}
}

func TestAChangedWorldIsNoticed(t *testing.T) {
	c := New(2, 0, 1)
	drive(c, 3000, []int64{1000, 1300})
	drive(c, 3*restStepsMax, []int64{1300, 1000})
	if c.Best() != 1 {
		t.Error("still chooses what has become slower")
	}
}

func TestAnInterruptionIsNotTakenForAStep(t *testing.T) {
	c := New(2, 0, 1)
	for now := int64(0); c.block < 1; now += 1000 {
		c.Step(now, 1)
	}
	c.Interrupt()
	c.left = blockSteps - 1 // counting, if the time were known
	c.Step(1_000_000_000, 1)
	if n := len(c.times[1]); n != 0 {
		t.Errorf("%d times counted over an interruption", n)
	}
	c.Step(1_000_001_000, 1)
	if n := len(c.times[1]); n != 1 {
		t.Errorf("%d times counted after the next step, want 1", n)
	}
}

func TestTrialsEndHoweverShortTheAnswersAre(t *testing.T) {
	for _, every := range []int{3, 10, 40, 64} {
		c := New(3, 2, 1)
		now, rival := int64(0), 0
		for i := range 20000 {
			if setting := c.Step(now, 1); setting != c.Best() {
				rival++
			}
			now += 1000
			if i%every == every-1 {
				c.Interrupt()
				now += 1_000_000
			}
		}
		if share := float64(rival) / 20000; share > 0.05 {
			t.Errorf("a prompt every %d steps: %.1f %% of the steps ran with a rival", every, 100*share)
		}
	}
}

func TestStepsDoNotAllocate(t *testing.T) {
	c := New(3, 1, 1)
	now := int64(0)
	if n := testing.AllocsPerRun(5000, func() { now += 1000; c.Step(now, 1) }); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}
