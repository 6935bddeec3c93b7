package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/les-project/les/cgo/measure"
	"github.com/les-project/les/cmd/lescli/internal/quantize"
	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/outfile"
	"github.com/urfave/cli/v2"
)

func imatrixCommand() *cli.Command {
	return &cli.Command{
		Name:  "imatrix",
		Usage: "collect importance data for quantize from a text",
		Description: "Runs llama.cpp's collector on the model, streamed if it has experts, and writes what it " +
			"writes. Then says for each layer how many experts the text reached, and how often.",
		Flags: append([]cli.Flag{
			modelFlag(),
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "file for the importance data (GGUF)"},
			forceFlag(),
		}, measureFlags()...),
		Action: runImatrix,
	}
}

func runImatrix(c *cli.Context) error {
	opts, err := parseMeasure(c)
	if err != nil {
		return err
	}
	if c.String("out") == "" {
		return usagef("--out (-o) is missing: where to write the importance data")
	}
	path, err := modelPath(c)
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil {
		return err
	}
	if err := checkNew("out", c.String("out"), c.Bool("force"), path, opts.name); err != nil {
		return err
	}
	ctx, release := interruptible(c.Context)
	defer release()
	start := time.Now()
	imatrix, err := collect(ctx, c, opts, path)
	if err != nil {
		return err
	}
	printSeen(c.App.Writer, imatrix)
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: %d chunks in %.1f s\n", c.String("out"), imatrix.Chunks, time.Since(start).Seconds())
	return nil
}

// collect runs the collector and gives the file its name when it reads well.
func collect(ctx context.Context, c *cli.Context, opts measureOptions, path string) (_ *quantize.Imatrix, err error) {
	bytes, err := importanceBytes(path)
	if err != nil {
		return nil, err
	}
	if err := outfile.CheckSpace(c.String("out"), bytes); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	part, err := createPart("out", c.String("out"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			part.Discard()
		}
	}()
	m, err := opts.open(ctx, c, path, measure.Observer())
	if err != nil {
		return nil, err
	}
	defer m.Close()
	m.File = part.PartPath()
	if err := m.result(m.Imatrix(ctx)); err != nil {
		return nil, err
	}
	imatrix, err := readBack(part, bytes)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	return imatrix, part.commit()
}

// readBack reads what llama.cpp has written, since it does not say when it could
// not write all of it. A file that is cut off is the disk's fault if there is no
// room for the rest.
func readBack(part *partFile, bytes int64) (*quantize.Imatrix, error) {
	imatrix, err := quantize.ReadImatrix(part.PartPath())
	if err == nil {
		return imatrix, nil
	}
	if written, sizeErr := part.Bytes(); sizeErr == nil && written < bytes {
		if full := outfile.CheckSpace(part.Path(), bytes-written); full != nil {
			return nil, fmt.Errorf("%s was cut off after %d bytes: %w", part.Path(), written, full)
		}
	}
	return nil, fmt.Errorf("what was written does not read back: %w", err)
}

// printSeen says how many experts of each layer the text reached. All matrices of
// an expert are reached together.
func printSeen(out io.Writer, imatrix *quantize.Imatrix) {
	type layer struct {
		name   layout.Name
		counts []int64
	}
	seen := map[layout.Name]bool{}
	var layers []layer
	for _, name := range imatrix.Names() {
		parsed, ok := layout.ParseName(name)
		key := layout.Name{Block: parsed.Block, Kind: parsed.Kind}
		if ok && !seen[key] {
			seen[key] = true
			layers = append(layers, layer{key, imatrix.Seen(name)})
		}
	}
	slices.SortFunc(layers, func(a, b layer) int { return a.name.Block - b.name.Block })
	if len(layers) == 0 {
		return
	}
	fmt.Fprintln(out, "block  experts seen  least  median  most  (times an expert was used)")
	for _, l := range layers {
		sorted := slices.Sorted(slices.Values(l.counts))
		reached := 0
		for _, count := range sorted {
			if count > 0 {
				reached++
			}
		}
		fmt.Fprintf(out, "%5d  %5d of %-4d  %5d  %6d  %4d%s\n", l.name.Block, reached, len(sorted), sorted[0], sorted[len(sorted)/2], sorted[len(sorted)-1], unseenText(l.counts))
	}
}

// unseenText lists the experts that were never used.
func unseenText(counts []int64) string {
	var ids []string
	for id, count := range counts {
		if count == 0 {
			ids = append(ids, fmt.Sprint(id))
		}
	}
	if len(ids) == 0 {
		return ""
	}
	return "  never: " + namesText(ids)
}

// checkNew refuses an output that is there, unless force is set, and always the
// inputs, which are there.
func checkNew(flag, out string, force bool, inputs ...string) error {
	if err := outfile.Check(out, force, inputs...); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}
