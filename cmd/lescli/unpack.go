package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/les-project/les/cmd/lescli/internal/repack"
	"github.com/urfave/cli/v2"
)

func unpackCommand() *cli.Command {
	return &cli.Command{
		Name:      "unpack",
		Usage:     "give back the file that was repacked",
		ArgsUsage: "IN OUT",
		Description: "OUT is the file that IN was made from, byte for byte; where that was split, it is " +
			"what llama-gguf-split --merge gives. Its digest is compared before it gets its name.",
		Flags:  []cli.Flag{forceFlag()},
		Action: runUnpack,
	}
}

func runUnpack(c *cli.Context) error {
	in, out, err := inAndOut(c)
	if err != nil {
		return err
	}
	ctx, release := interruptible(c.Context)
	defer release()
	line, start := newProgressLine(c.App.ErrWriter), time.Now()
	result, err := repack.Unpack(ctx, in, out, repack.Options{Force: c.Bool("force"), Progress: line.transfer("unpacking " + in)})
	line.clear()
	if errors.Is(err, repack.ErrStock) {
		return fmt.Errorf("%w; there is nothing to unpack", err)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.ErrWriter, "wrote %s: %s in %.1f s, the file that was repacked\n",
		out, formatSize(result.Bytes), time.Since(start).Seconds())
	return nil
}
