package main

import (
	"fmt"

	"github.com/urfave/cli/v2"
)

// slotsFlag is the flag that asks for arms with several numbers of slots, empty
// without one.
func slotsFlag(l ladder, values sweepValues) string {
	switch {
	case l.on:
		return "--ladder"
	case values["slots"] != nil:
		return "--sweep slots"
	case values["budget"] != nil:
		return "--sweep budget"
	}
	return ""
}

// streamingFlag is the flag that asks for arms which differ in what means nothing for a
// model that is not streamed, empty without one.
func streamingFlag(l ladder, values sweepValues) string {
	for _, name := range []string{"lookahead", "lanes", "ready-first"} {
		if values[name] != nil {
			return "--sweep " + name
		}
	}
	return slotsFlag(l, values)
}

// checkSlotsFlag refuses a sweep of slots beside flags that set them for all arms.
func checkSlotsFlag(c *cli.Context, opts benchOptions) error {
	if opts.slotsFlag == "" || opts.ladder.on {
		return nil
	}
	if c.String("les") == "off" {
		return usagef("%s and --les off contradict: the value off is an arm that streams nothing", opts.slotsFlag)
	}
	for _, name := range []string{"les-budget", "les-slots"} {
		if c.IsSet(name) {
			return usagef("%s and --%s contradict: the sweep sets it for each arm", opts.slotsFlag, name)
		}
	}
	return nil
}

// checkBenchModels refuses models that the flags make no sense for, before
// anything is measured. The first arm has the model of -m.
func checkBenchModels(opts benchOptions, files map[string]*modelFile) error {
	path := opts.arms[0].Model
	model := files[path]
	if opts.streaming != "" && len(model.layers) == 0 {
		return fmt.Errorf("%s: %s has no routed experts that could be streamed", opts.streaming, path)
	}
	l := opts.ladder
	if l.contiguous != "" && !files[l.contiguous].contiguous {
		return fmt.Errorf("--contiguous: %s has the %s layout; lescli repack writes a contiguous one", l.contiguous, files[l.contiguous].layoutName())
	}
	for _, other := range []struct{ flag, path string }{{"contiguous", l.contiguous}, {"q3k", l.smaller}} {
		if other.path == "" {
			continue
		}
		if difference := model.difference(files[other.path]); difference != "" {
			return fmt.Errorf("--%s: %s is not the model of %s: %s", other.flag, other.path, path, difference)
		}
	}
	return nil
}

// difference says in what another file is not the same model; empty when it is,
// whatever its types and layout.
func (m *modelFile) difference(other *modelFile) string {
	if m.Arch != other.Arch {
		return fmt.Sprintf("its architecture is %s, not %s", other.Arch, m.Arch)
	}
	for _, count := range []struct {
		name      string
		its, ours int
	}{
		{"layers", other.Blocks - other.NextN, m.Blocks - m.NextN}, {"NextN blocks", other.NextN, m.NextN},
		{"layers with routed experts", len(other.layers), len(m.layers)}, {"experts", other.Experts, m.Experts},
		{"experts a token", other.Used, m.Used}, {"columns", other.Embedding, m.Embedding}, {"rows an expert", other.ExpertWidth, m.ExpertWidth},
	} {
		if count.its != count.ours {
			return fmt.Sprintf("it has %d %s, not %d", count.its, count.name, count.ours)
		}
	}
	for i, layer := range m.layers {
		its := other.layers[i]
		if its.block != layer.block || its.kind != layer.kind || its.experts != layer.experts {
			return fmt.Sprintf("it has %d %s in block %d, not %d %s in block %d", its.experts, its.kind, its.block, layer.experts, layer.kind, layer.block)
		}
	}
	return ""
}
