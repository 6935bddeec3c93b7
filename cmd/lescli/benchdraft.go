package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/les-project/les/lesext/dspark"
	"github.com/urfave/cli/v2"
)

// benchDraft is the drafting of an arm, sent to its process.
type benchDraft struct {
	Kind, Path string
	Max        int
	MaxGiven   bool
	Budget     int64
	Synthetic  syntheticDraft
}

// Widths of arms beside the fixed ones.
const (
	widthPlain  = -1 // nothing is drafted
	widthChosen = 0  // the controller decides
)

func benchDraftFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "draft", Usage: "model that drafts: arms without drafts, with the controller, and with each of --draft-widths"},
		&cli.StringFlag{Name: "draft-type", Value: draftAuto, Usage: "how tokens are drafted, as for run; synthetic needs no drafter"},
		draftBudgetFlag(),
		&cli.IntFlag{Name: "draft-max", Value: draftMaxDefault, Usage: "most tokens of a draft"},
		&cli.StringFlag{Name: "draft-widths", Usage: "fixed numbers of verified tokens, an arm for each (default: 1, 2, 4, ... and --draft-max)"},
		&cli.Float64Flag{Name: "draft-temp", Usage: "temperature of the answer that all arms follow"},
		&cli.StringFlag{Name: "draft-acceptance", Usage: "with synthetic: the chance that a token is right if those before it are, or one for each position"},
		&cli.Float64Flag{Name: "draft-noise", Usage: "with synthetic: give confidences with this error", DefaultText: "none are given"},
	}
}

// draftArms are what --draft* ask for; nothing without them.
type draftArms struct {
	draft  *benchDraft
	widths []int
}

func parseDraftArms(c *cli.Context) (arms draftArms, err error) {
	synthetic := c.String("draft-type") == draftSynthetic
	for _, name := range []string{"draft-acceptance", "draft-noise"} {
		if c.IsSet(name) && !synthetic {
			return arms, usagef("--%s needs --draft-type %s", name, draftSynthetic)
		}
	}
	var opts draftOptions
	if synthetic {
		opts, err = parseSynthetic(c)
	} else {
		opts, err = parseDraft(c)
	}
	if err != nil {
		return arms, err
	}
	if opts.kind == "" {
		for _, name := range []string{"draft-widths", "draft-temp"} {
			if c.IsSet(name) {
				return arms, usagef("--%s without --draft or --draft-type", name)
			}
		}
		return arms, nil
	}
	arms.draft = &benchDraft{Kind: opts.kind, Path: opts.path, Max: opts.max, MaxGiven: opts.given, Budget: opts.budgetBytes, Synthetic: opts.synthetic}
	if arms.widths, err = parseWidths(c.String("draft-widths"), opts.max); err != nil {
		return arms, err
	}
	return arms, arms.check(c)
}

// check refuses what drafts cannot be measured with.
func (a draftArms) check(c *cli.Context) error {
	for _, name := range []string{"ladder", "stock"} {
		if c.IsSet(name) {
			return usagef("--%s and --draft contradict", name)
		}
	}
	prompt, err := strconv.Atoi(strings.TrimSpace(c.String("prompt-tokens")))
	switch {
	case err != nil:
		return usagef("--prompt-tokens (-p): a list and --draft contradict")
	case c.Int("n") == 0:
		return usagef("-n: 0 leaves nothing to draft")
	case a.draft.Kind == draftSynthetic && c.IsSet("draft-temp"):
		return usagef("--draft-temp and --draft-type %s contradict: it drafts the tokens that are fed", draftSynthetic)
	case a.draft.Kind != draftSynthetic && prompt == 0:
		return usagef("--prompt-tokens (-p) is needed with a drafter, and more than 0: without a prompt the model has nothing to answer, and the drafter nothing to go by")
	case !(c.Float64("draft-temp") >= 0):
		return usagef("--draft-temp: %g is not zero or more", c.Float64("draft-temp"))
	}
	return nil
}

// parseSynthetic reads the flags of a drafter that is none.
func parseSynthetic(c *cli.Context) (opts draftOptions, err error) {
	opts = draftOptions{kind: draftSynthetic, max: c.Int("draft-max"), given: true}
	opts.synthetic = syntheticDraft{Confident: c.IsSet("draft-noise"), Noise: c.Float64("draft-noise"), Seed: c.Uint64("seed")}
	switch {
	case c.IsSet("draft"):
		return opts, usagef("--draft and --draft-type %s contradict: it drafts without a model", draftSynthetic)
	case opts.max < 1 || opts.max > dspark.WidthMax:
		return opts, usagef("--draft-max: %d is not between 1 and %d", opts.max, dspark.WidthMax)
	case !c.IsSet("draft-acceptance"):
		return opts, usagef("--draft-type %s needs --draft-acceptance", draftSynthetic)
	case !(opts.synthetic.Noise >= 0 && opts.synthetic.Noise <= 1):
		return opts, usagef("--draft-noise: %g is not between 0 and 1", opts.synthetic.Noise)
	}
	for _, text := range strings.Split(c.String("draft-acceptance"), ",") {
		chance, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil || math.IsNaN(chance) || chance < 0 || chance > 1 {
			return opts, usagef("--draft-acceptance: %q is not between 0 and 1", text)
		}
		opts.synthetic.Acceptance = append(opts.synthetic.Acceptance, chance)
	}
	if n := len(opts.synthetic.Acceptance); n > opts.max {
		return opts, usagef("--draft-acceptance: %d positions, more than the %d of --draft-max", n, opts.max)
	}
	return opts, nil
}

// parseWidths reads a list of widths up to most; 0 is the arm without drafts,
// which is always there.
func parseWidths(list string, most int) (widths []int, err error) {
	if list == "" {
		for width := 1; width < most; width *= 2 {
			widths = append(widths, width)
		}
		return append(widths, most), nil
	}
	for _, text := range strings.Split(list, ",") {
		width, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || width < 0 || width > most {
			return nil, usagef("--draft-widths: %q is not between 0 and --draft-max, which is %d", text, most)
		}
		if width > 0 && !slices.Contains(widths, width) {
			widths = append(widths, width)
		}
	}
	return widths, nil
}

// of makes the arms with and without drafts of each arm.
func (a draftArms) of(arms []benchArm) (all []benchArm) {
	if a.draft == nil {
		return arms
	}
	for _, arm := range arms {
		for _, width := range append([]int{widthPlain, widthChosen}, a.widths...) {
			varied := arm
			if varied.width = width; width != widthPlain {
				varied.Draft = a.draft
			}
			varied.name = strings.TrimPrefix(arm.name+", "+widthName(width), ", ")
			all = append(all, varied)
		}
	}
	return all
}

func widthName(width int) string {
	switch width {
	case widthPlain:
		return "no drafts"
	case widthChosen:
		return "controller"
	}
	return fmt.Sprintf("width %d", width)
}

// undrafted is the arm without what drafting makes of it: arms that are equal so
// are compared with each other.
func (a benchArm) undrafted() benchArm {
	a.name, a.width, a.Draft = "", 0, nil
	return a
}
