package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/les-project/les/cmd/lescli/internal/repack"
	"github.com/urfave/cli/v2"
)

func repackCommand() *cli.Command {
	return &cli.Command{
		Name:      "repack",
		Usage:     "rewrite a model so that one read brings a whole expert",
		ArgsUsage: "IN OUT",
		Description: "Gate, up and down of an expert become one extent, and the extents of a layer lie " +
			"next to each other. All parts of a split model become one file. Only programs with " +
			"LES read the result; unpack gives the original back, byte for byte.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "keep-names", Usage: "keep the names of expert tensors, for tools that look them up"},
			forceFlag(),
		},
		Action: runRepack,
	}
}

func forceFlag() cli.Flag {
	return &cli.BoolFlag{Name: "force", Usage: "replace OUT if it exists"}
}

func runRepack(c *cli.Context) error {
	in, out, err := inAndOut(c)
	if err != nil {
		return err
	}
	if c.Bool("keep-names") {
		fmt.Fprintf(c.App.ErrWriter, "warning: --keep-names: a program that does not know the layout and does not count tensors would read garbage from %s\n", out)
	}
	ctx, release := interruptible(c.Context)
	defer release()
	line, start := newProgressLine(c.App.ErrWriter), time.Now()
	result, err := repack.Repack(ctx, in, out, repack.Options{
		KeepNames: c.Bool("keep-names"), Force: c.Bool("force"), Progress: line.transfer("repacking " + in),
	})
	line.clear()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: %s in %.1f s, %d experts in %d layers, extents of up to %d bytes\n",
		out, formatSize(result.Bytes), time.Since(start).Seconds(), result.Experts, result.Layers, result.Extent)
	return nil
}

// inAndOut are the two positional arguments.
func inAndOut(c *cli.Context) (in, out string, err error) {
	switch c.NArg() {
	case 0:
		err = usagef("%s: IN and OUT are missing", c.Command.Name)
	case 1:
		err = usagef("%s: OUT is missing", c.Command.Name)
	case 2:
		in, out = c.Args().Get(0), c.Args().Get(1)
		return in, out, errors.Join(checkNamed(c, "IN", in), checkNamed(c, "OUT", out))
	default:
		err = usagef("%s: unexpected argument %q", c.Command.Name, c.Args().Get(2))
	}
	return "", "", err
}
