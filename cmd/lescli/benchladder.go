package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

func ladderFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "ladder", Usage: "an arm for each idea, each on top of those before, from reading on demand to the cache of the --les-* flags"},
		&cli.StringFlag{Name: "contiguous", Usage: "with --ladder: the same model, repacked so that each expert is one read"},
		&cli.StringFlag{Name: "q3k", Usage: "with --ladder: the same model with experts of fewer bits"},
	}
}

// ladder is what --ladder compares besides the model itself.
type ladder struct {
	on         bool
	contiguous string // file, empty for none
	smaller    string // file, empty for none
}

func parseLadder(c *cli.Context) (ladder, error) {
	l := ladder{on: c.Bool("ladder"), contiguous: c.String("contiguous"), smaller: c.String("q3k")}
	for _, name := range []string{"contiguous", "q3k"} {
		if c.IsSet(name) && !l.on {
			return l, usagef("--%s needs --ladder", name)
		}
		if c.IsSet(name) && c.String(name) == "" {
			return l, usagef("--%s is empty", name)
		}
	}
	for _, name := range []string{"sweep", "les-lookahead", "les-lanes", "les-ready-first", "repack"} {
		if c.IsSet(name) && l.on {
			return l, usagef("--ladder and --%s contradict: the ladder sets it", name)
		}
	}
	if l.on && c.String("les") == "off" {
		return l, usagef("--ladder and --les off contradict")
	}
	return l, nil
}

// rung is one idea: what it changes against the rung before.
type rung struct {
	name  string
	apply func(*benchArm)
}

// rungs are in the order in which the ideas build on each other. The first is how engines that read experts on demand
// work: the file as it is, one read at a time, a layer computed when all its
// experts are in, and nothing kept.
func (l ladder) rungs(base benchArm) []rung {
	rungs := []rung{
		{"on demand", func(a *benchArm) {
			a.Mode, a.Slots, a.BudgetBytes, a.Lookahead, a.Lanes, a.WholeLayers = lesOn, 0, 0, 0, 1, true
		}},
		{"+ lookahead", func(a *benchArm) { a.Lookahead = base.Lookahead }},
		{"+ ready-first and lanes", func(a *benchArm) { a.Lanes, a.WholeLayers = base.Lanes, false }},
	}
	if l.contiguous != "" {
		rungs = append(rungs, rung{"+ contiguous", func(a *benchArm) { a.Model = l.contiguous }})
	}
	rungs = append(rungs, rung{"+ cache", func(a *benchArm) { a.Mode, a.Slots, a.BudgetBytes = base.Mode, base.Slots, base.BudgetBytes }})
	if l.smaller != "" {
		rungs = append(rungs, rung{"+ Q3_K experts", func(a *benchArm) { a.Model = l.smaller }})
	}
	return rungs
}

// arms are the rungs, and an arm with all experts in memory as their ceiling.
func (l ladder) arms(base benchArm) []benchArm {
	var arms []benchArm
	arm := base
	for i, r := range l.rungs(base) {
		r.apply(&arm)
		arm.name = fmt.Sprintf("%d %s", i+1, r.name)
		arms = append(arms, arm)
	}
	ceiling := base
	ceiling.Mode, ceiling.Slots, ceiling.BudgetBytes = lesOn, slotsAll, 0
	ceiling.name, ceiling.optional = "all slots", true
	return append(arms, ceiling)
}
