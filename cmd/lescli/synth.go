package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/synth"
	"github.com/urfave/cli/v2"
)

func synthCommand() *cli.Command {
	return &cli.Command{
		Name:      "synth",
		Usage:     "write a model with random weights",
		ArgsUsage: "OUT",
		Description: "The model has valid blocks and varied routing, but speaks nonsense. The same " +
			"preset, expert type and seed always give the same file. Presets:\n" + presetList(),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "preset", Usage: "shape of the model"},
			&cli.StringFlag{Name: "experts", Value: "q3_k", Usage: "quantisation of the experts: q3_k, q4_k or mxfp4; q8_0 is that of the rest too"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the weights"},
			&cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists"},
		},
		Action: runSynth,
	}
}

// presetNames is the width of the column with the names of presets.
const presetNames = 25

func presetList() string {
	var text strings.Builder
	for _, p := range synth.Presets() {
		text.WriteString(beside("  "+p.Name, p.About, presetNames, presetNames) + "\n")
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func runSynth(c *cli.Context) error {
	path, err := onePath(c, "OUT")
	if err != nil {
		return err
	}
	if c.String("preset") == "" {
		return usagef("synth: --preset is missing")
	}
	preset, err := synth.Find(c.String("preset"))
	if err != nil {
		return usagef("--preset: %w", err)
	}
	types := map[string]llama.TensorType{"q3_k": llama.Q3K, "q4_k": llama.Q4K, "q8_0": llama.Q8_0, "mxfp4": llama.MXFP4}
	expertType, ok := types[strings.ToLower(c.String("experts"))]
	if !ok {
		return usagef("--experts: %q is none of q3_k, q4_k, q8_0 and mxfp4", c.String("experts"))
	}
	if _, err := os.Lstat(path); err == nil && !c.Bool("force") {
		return fmt.Errorf("%s exists; --force replaces it", path)
	}
	ctx, release := interruptible(c.Context)
	defer release()
	line, start := newProgressLine(c.App.ErrWriter), time.Now()
	err = synth.Write(ctx, path, preset, synth.Options{
		ExpertType: expertType,
		Seed:       c.Uint64("seed"),
		Progress: func(written, total int64) {
			line.show("writing %s: %s of %s", path, formatSize(written), formatSize(total))
		},
	})
	line.clear()
	if err != nil {
		return fmt.Errorf("synth: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: %s in %.1f s\n", path, formatSize(info.Size()), time.Since(start).Seconds())
	return nil
}
