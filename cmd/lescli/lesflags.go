package main

import (
	"strconv"
	"strings"
	"time"

	"github.com/les-project/les/lesext/sched"
	"github.com/urfave/cli/v2"
)

// lesMode is the value of --les.
type lesMode int

const (
	lesAuto lesMode = iota // on for models with experts
	lesOn
	lesOff
)

// lesOptions are the --les-* flags after parsing.
type lesOptions struct {
	mode        lesMode
	budgetBytes int64 // 0 when not given
	slots       int   // slotsFromBudget or slotsAll when not a number
	lookahead   int
	lanes       int
	wholeLayers bool          // not ready-first
	readDelay   time.Duration // holds reads back at random, to test their timing
}

// slotsAll stands for as many slots as there are experts.
const slotsAll = -2

func lesFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "les", Value: "auto", Usage: "stream experts: on, off, or auto (on for models with experts)"},
		&cli.StringFlag{Name: "les-budget", Usage: "memory for the whole process, like 4G (units are powers of 1024)"},
		&cli.StringFlag{Name: "les-slots", Usage: "expert slots a layer above the floor, instead of a budget: a number, floor (0) or all"},
		&cli.IntFlag{Name: "les-lookahead", Value: 1, Usage: "layers ahead whose experts are read early; 0 reads on demand"},
		&cli.IntFlag{Name: "les-lanes", Usage: "reads in flight", DefaultText: "4"},
	}
}

// parseLES reads the --les-* flags and refuses those that contradict.
func parseLES(c *cli.Context) (lesOptions, error) {
	opts, err := parseLESMode(c)
	if err != nil {
		return opts, err
	}
	if c.IsSet("les-budget") {
		opts.budgetBytes, err = parseSize("les-budget", c.String("les-budget"))
	}
	if text := c.String("les-slots"); err == nil && c.IsSet("les-slots") {
		if strings.Contains(text, ",") {
			return opts, usagef("--les-slots: %q is a list; bench --sweep slots=%s measures several", text, text)
		}
		opts.slots, err = parseSlots("les-slots", text)
	}
	return opts, err
}

// parseLESMode reads all but sizes.
func parseLESMode(c *cli.Context) (lesOptions, error) {
	opts := lesOptions{slots: slotsFromBudget, lookahead: c.Int("les-lookahead"), lanes: c.Int("les-lanes")}
	modes := map[string]lesMode{"auto": lesAuto, "on": lesOn, "off": lesOff}
	mode, ok := modes[c.String("les")]
	if !ok {
		return opts, usagef("--les: %q is neither on, off nor auto", c.String("les"))
	}
	opts.mode = mode
	for _, name := range []string{"les-budget", "les-slots", "les-lookahead", "les-lanes"} {
		if c.IsSet(name) && mode == lesOff {
			return opts, usagef("--les off and --%s contradict", name)
		}
		if c.IsSet(name) {
			opts.mode = lesOn
		}
	}
	if c.IsSet("les-budget") && c.IsSet("les-slots") {
		return opts, usagef("--les-budget and --les-slots contradict: either decides the other")
	}
	if opts.lookahead < 0 {
		return opts, usagef("--les-lookahead: %d is negative", opts.lookahead)
	}
	if opts.lookahead > lookaheadMax {
		return opts, usagef("--les-lookahead: %d is more than %d", opts.lookahead, lookaheadMax)
	}
	if c.IsSet("les-lanes") && opts.lanes <= 0 {
		return opts, usagef("--les-lanes: %d must be more than zero", opts.lanes)
	}
	if opts.lanes > sched.LanesMax {
		return opts, usagef("--les-lanes: %d is more than %d", opts.lanes, sched.LanesMax)
	}
	return opts, nil
}

// parseSlotsList reads several numbers of slots.
func parseSlotsList(flag string, texts []string) ([]int, error) {
	var list []int
	for _, text := range texts {
		slots, err := parseSlots(flag, strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		list = append(list, slots)
	}
	return list, nil
}

// parseSlots reads a number of slots, floor (0: only what is in use or in
// flight) or all.
func parseSlots(flag, text string) (int, error) {
	switch text {
	case "floor":
		return 0, nil
	case "all":
		return slotsAll, nil
	}
	slots, err := strconv.Atoi(text)
	if err != nil {
		return 0, usagef("--%s: %q is neither a number, floor nor all", flag, text)
	}
	if slots < 0 {
		return 0, usagef("--%s: %d is negative", flag, slots)
	}
	return slots, nil
}

// slotsName is the word or number that parseSlots read.
func slotsName(slots int) string {
	switch slots {
	case 0:
		return "floor"
	case slotsAll:
		return "all"
	}
	return strconv.Itoa(slots)
}
