package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/quantize"
	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/outfile"
	"github.com/urfave/cli/v2"
)

func quantizeCommand() *cli.Command {
	return &cli.Command{
		Name:      "quantize",
		Usage:     "write a model with fewer bits for its experts than for the rest",
		ArgsUsage: "IN OUT",
		Description: "Types are chosen and blocks are made by llama.cpp's quantiser. All parts of a split " +
			"model become one file. Memory stays far below the size of the model.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "experts", Value: "q3_k", Usage: "type of the experts"},
			&cli.StringFlag{Name: "rest", Value: "q4_k_m", Usage: "mixture for everything else: " + strings.Join(llama.FileTypeNames(), ", ")},
			&cli.StringFlag{Name: "imatrix", Usage: "importance data, from lescli imatrix"},
			&cli.StringSliceFlag{Name: "layers", Usage: "RANGE=TYPE for the experts of some blocks: 0-3=q4_k, or 5:down=q5_k for one matrix of each; later ones win"},
			&cli.StringFlag{Name: "target-size", Usage: "choose types layer by layer by what each loses, for a file of at most this size, like 13G; --rest is the least for the rest"},
			&cli.StringFlag{Name: "layout", Value: "contiguous", Usage: "contiguous: one read brings a whole expert, only programs with LES read it; or stock: every program reads it"},
			&cli.BoolFlag{Name: "dry-run", Usage: "print the summary, write nothing; OUT may be left out"},
			&cli.BoolFlag{Name: "no-fallback", Usage: "fail instead of giving a tensor another type than asked for"},
			&cli.BoolFlag{Name: "allow-requantize", Usage: "also from types that have lost much already"},
			forceFlag(),
		},
		Action: runQuantize,
	}
}

func runQuantize(c *cli.Context) error {
	in, out, err := quantizePaths(c)
	if err != nil {
		return err
	}
	opts, err := parseQuantize(c)
	if err != nil {
		return err
	}
	if path := c.String("imatrix"); c.IsSet("imatrix") {
		if opts.Imatrix, err = quantize.ReadImatrix(path); err != nil {
			return fmt.Errorf("--imatrix: %w", err)
		}
	}
	ctx, release := interruptible(c.Context)
	defer release()
	line, start := newProgressLine(c.App.ErrWriter), time.Now()
	if opts, err = mixTypes(ctx, c, in, opts); err != nil {
		return quantizeError(err, in)
	}
	q, err := quantize.Open(in, opts)
	if err != nil {
		return quantizeError(err, in)
	}
	defer q.Close()
	if err := printQuantize(c, q, opts); err != nil || c.Bool("dry-run") {
		return err
	}
	result, err := q.Write(ctx, out, c.Bool("force"), line.transfer("quantising "+in))
	line.clear()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: %s in %.1f s\n", out, formatSize(result.Bytes), time.Since(start).Seconds())
	return nil
}

// mixTypes chooses types where --target-size asks for it.
func mixTypes(ctx context.Context, c *cli.Context, in string, opts quantize.Options) (quantize.Options, error) {
	if !c.IsSet("target-size") {
		return opts, nil
	}
	for _, name := range []string{"experts", "layers"} {
		if c.IsSet(name) {
			return opts, usagef("--target-size and --%s contradict: either chooses the types of experts", name)
		}
	}
	target, err := parseSize("target-size", c.String("target-size"))
	if err != nil {
		return opts, err
	}
	line := newProgressLine(c.App.ErrWriter)
	defer line.clear()
	opts, err = quantize.Mix(ctx, in, opts, target, func(done, total int64) { line.show("measuring %s: %d of %d choices", in, done, total) })
	if err != nil {
		return opts, fmt.Errorf("--target-size: %w", err)
	}
	return opts, nil
}

// quantizePaths are IN and OUT; a dry run needs no OUT. An OUT that would be refused
// in the end is refused before anything is measured.
func quantizePaths(c *cli.Context) (in, out string, err error) {
	if c.Bool("dry-run") && c.NArg() == 1 {
		in, err = onePath(c, "IN")
		return in, "", err
	}
	in, out, err = inAndOut(c)
	if err == nil && !c.Bool("dry-run") {
		err = outfile.Check(out, c.Bool("force"), in)
	}
	return in, out, err
}

// quantizeError names the file where the package could not.
func quantizeError(err error, in string) error {
	if errors.Is(err, layout.ErrNoExperts) {
		return fmt.Errorf("%s: %w; for a dense model use llama-quantize", in, err)
	}
	return err
}

func parseQuantize(c *cli.Context) (opts quantize.Options, err error) {
	if opts.Experts, err = parseTensorType("experts", c.String("experts")); err != nil {
		return opts, err
	}
	var ok bool
	if opts.Rest, ok = llama.ParseFileType(c.String("rest")); !ok {
		return opts, usagef("--rest: %q is none of %s", c.String("rest"), strings.Join(llama.FileTypeNames(), ", "))
	}
	for _, text := range c.StringSlice("layers") {
		layer, err := parseLayerType(text)
		if err != nil {
			return opts, err
		}
		opts.Layers = append(opts.Layers, layer)
	}
	switch c.String("layout") {
	case "contiguous":
		opts.Contiguous = true
	case "stock":
	default:
		return opts, usagef("--layout: %q is neither contiguous nor stock", c.String("layout"))
	}
	opts.Requantize, opts.NoFallback = c.Bool("allow-requantize"), c.Bool("no-fallback")
	return opts, nil
}

// parseTensorType reads a type that experts can have.
func parseTensorType(flag, text string) (llama.TensorType, error) {
	t, ok := llama.ParseTensorType(text)
	if !ok || !t.Writable() {
		return t, usagef("--%s: %q is no type that can be written, like q3_k, q4_k or iq3_s", flag, text)
	}
	return t, nil
}

// layerType is what --layers takes.
var layerType = regexp.MustCompile(`^(\d+)(?:-(\d+))?(?::(gate|up|down|gate_up))?=(\S+)$`)

func parseLayerType(text string) (l quantize.LayerType, err error) {
	m := layerType.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return l, usagef("--layers: %q is not like 0-3=q4_k or 5:down=q5_k", text)
	}
	first, err := strconv.Atoi(m[1])
	last := first
	if err == nil && m[2] != "" {
		last, err = strconv.Atoi(m[2])
	}
	if err != nil || last < first {
		return l, usagef("--layers: %q is not a range of blocks", text)
	}
	l = quantize.LayerType{First: first, Last: last, Role: m[3]}
	l.Type, err = parseTensorType("layers", m[4])
	return l, err
}
