package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/les-project/les/lesext/sched"
)

// benchArm is one thing that is measured against others.
type benchArm struct {
	name string
	benchSettings
	memoryBytes    int64  // limit of the control group, 0 for none
	bandwidthBytes int64  // limit of reads from the device a second, 0 for none
	device         string // major:minor of the device, when bandwidth is limited
	optional       bool   // left out where memory does not allow it
	stockLoad      string // load mode of llama-bench, empty for this program
	width          int    // of drafts, where some of the arms have any
}

// resident says whether all experts are in memory, so that nothing is read:
// such arms are what others are compared with and run without limits.
func (a benchArm) resident() bool {
	if a.stockLoad != "" {
		return a.stockLoad == stockLoadRead
	}
	return a.Mode == lesOff || a.Slots == slotsAll
}

func (a benchArm) limits() kernelLimits {
	return kernelLimits{root: cgroupRoot, memoryBytes: a.memoryBytes, bandwidthBytes: a.bandwidthBytes, device: a.device}
}

// sweepDimension is one setting that --sweep may vary.
type sweepDimension struct {
	name  string
	reads bool // it is about reading experts, and means nothing when none is read
	set   func(arm *benchArm, text string) error
}

// sweepDimensions are in the order in which they are applied: whether anything
// is streamed comes first.
var sweepDimensions = []sweepDimension{
	{"slots", false, setSlots},
	{"budget", false, setBudget},
	{"lookahead", true, setCount(func(a *benchArm) *int { return &a.Lookahead }, 0, lookaheadMax)},
	{"lanes", true, setCount(func(a *benchArm) *int { return &a.Lanes }, 1, sched.LanesMax)},
	{"ready-first", true, setReadyFirst},
	{"threads", false, setCount(func(a *benchArm) *int { return &a.Threads }, 1, threadsMax)},
	{"prompt", false, setCount(func(a *benchArm) *int { return &a.Prompt }, 0, countsMax)},
	{"ubatch", false, setCount(func(a *benchArm) *int { return &a.Ubatch }, 1, countsMax)},
	{"bandwidth", true, setBandwidth},
}

// sweepOff is the value of slots and of budget for experts that are resident.
const sweepOff = "off"

func setSlots(arm *benchArm, text string) (err error) {
	if text == sweepOff {
		arm.Mode, arm.Slots = lesOff, slotsFromBudget
		return nil
	}
	arm.Mode, arm.BudgetBytes = lesOn, 0
	arm.Slots, err = parseSlots("sweep", text)
	return err
}

func setBudget(arm *benchArm, text string) (err error) {
	if text == sweepOff {
		return setSlots(arm, text)
	}
	arm.Mode, arm.Slots = lesOn, slotsFromBudget
	arm.BudgetBytes, err = parseSize("sweep", text)
	return err
}

func setReadyFirst(arm *benchArm, text string) error {
	on, err := strconv.ParseBool(text)
	if err != nil {
		return usagef("--sweep: ready-first is %q, neither true nor false", text)
	}
	arm.WholeLayers = !on
	return nil
}

func setBandwidth(arm *benchArm, text string) (err error) {
	arm.bandwidthBytes, err = parseBandwidth(text)
	return err
}

// bandwidthMin is the least limit of reads: below it a single read can hold a
// process, which cannot be ended meanwhile, for minutes.
const bandwidthMin = 1 << 20

// parseBandwidth reads a value of --bandwidth; 0 is none.
func parseBandwidth(text string) (int64, error) {
	if text == "none" {
		return 0, nil
	}
	bytes, err := parseSize("bandwidth", text)
	if err == nil && bytes < bandwidthMin {
		err = usagef("--bandwidth: %q is less than 1M a second", text)
	}
	return bytes, err
}

// setCount makes a setter of a number with these bounds.
func setCount(field func(*benchArm) *int, least, most int) func(*benchArm, string) error {
	return func(arm *benchArm, text string) error {
		value, err := strconv.Atoi(text)
		if err != nil {
			return usagef("--sweep: %q is not a number", text)
		}
		if value < least || value > most {
			return usagef("--sweep: %d is not between %d and %d", value, least, most)
		}
		*field(arm) = value
		return nil
	}
}

// sweepValues are the values of each dimension that varies.
type sweepValues map[string][]string

// parseSweep reads --sweep NAME=VALUE,VALUE. The flag's own parser has cut the
// text at commas already, so a part without a name goes on with the last one.
func parseSweep(parts []string) (sweepValues, error) {
	values, name := sweepValues{}, ""
	for _, part := range parts {
		text := strings.TrimSpace(part)
		if before, after, found := strings.Cut(text, "="); found {
			name, text = strings.TrimSpace(before), strings.TrimSpace(after)
			known := slices.ContainsFunc(sweepDimensions, func(d sweepDimension) bool { return d.name == name })
			if !known || values[name] != nil {
				return nil, usagef("--sweep: %q is not one of %s, or is there twice", name, sweepNames())
			}
		}
		if name == "" || text == "" {
			return nil, usagef("--sweep: %q is not NAME=VALUE,VALUE with a name among %s", part, sweepNames())
		}
		values[name] = append(values[name], text)
	}
	if values["slots"] != nil && values["budget"] != nil {
		return nil, usagef("--sweep: slots and budget contradict: either decides the other")
	}
	return values, nil
}

func sweepNames() string {
	var names []string
	for _, d := range sweepDimensions {
		if d.name != "prompt" && d.name != "bandwidth" { // these have flags of their own
			names = append(names, d.name)
		}
	}
	return strings.Join(names, ", ")
}

// arms are all combinations of the values for each of the bases, each once.
func (v sweepValues) arms(bases []benchArm) ([]benchArm, error) {
	arms := bases
	for _, d := range sweepDimensions {
		if v[d.name] == nil {
			continue
		}
		var next []benchArm
		for _, arm := range arms {
			for _, text := range v[d.name] {
				varied := arm
				if err := varied.vary(d, text); err != nil {
					return nil, err
				}
				if !slices.Contains(next, varied) {
					next = append(next, varied)
				}
			}
		}
		arms = next
	}
	return arms, nil
}

// nameArms names the arms of which nothing varies.
func nameArms(arms []benchArm) {
	for i := range arms {
		if arms[i].name == "" {
			arms[i].name = arms[i].settingName()
		}
	}
}

// vary sets one value and puts it into the name.
func (a *benchArm) vary(d sweepDimension, text string) error {
	if d.reads && a.resident() {
		return nil
	}
	if err := d.set(a, text); err != nil {
		return err
	}
	part := d.name + " " + text
	switch {
	case text == sweepOff:
		part = "off"
	case d.name == "bandwidth" && text == "none":
		part = "full bandwidth"
	case d.name == "bandwidth":
		part = text + "/s"
	}
	a.name = strings.TrimPrefix(a.name+", "+part, ", ")
	return nil
}

// settingName names an arm of which nothing varies.
func (a benchArm) settingName() string {
	switch {
	case a.stockLoad != "":
		return "llama-bench " + a.stockLoad
	case a.Mode == lesOff:
		return "off"
	case a.Slots != slotsFromBudget:
		return "slots " + slotsName(a.Slots)
	case a.BudgetBytes > 0:
		return "budget " + formatSize(a.BudgetBytes)
	}
	return "default budget"
}

// limitMemory puts the arms that read into a memory limit. Without a budget of
// their own they plan for all of it.
func limitMemory(arms []benchArm, bytes int64) {
	for i := range arms {
		arm := &arms[i]
		if bytes == 0 || arm.resident() {
			continue
		}
		arm.memoryBytes = bytes
		if arm.Slots == slotsFromBudget && arm.BudgetBytes == 0 {
			arm.Mode, arm.BudgetBytes = lesOn, bytes
		}
	}
}

// limitDevices finds the devices whose reads are limited.
func limitDevices(arms []benchArm) (err error) {
	for i := range arms {
		if arms[i].bandwidthBytes > 0 {
			if arms[i].device, err = blockDevice(arms[i].Model); err != nil {
				return fmt.Errorf("--bandwidth: %w", err)
			}
		}
	}
	return nil
}
