package main

import (
	"errors"
	"fmt"

	"github.com/les-project/les/cmd/lescli/internal/repack"
	"github.com/urfave/cli/v2"
)

// damageLinesMax is how many damaged stretches are listed; the last line counts
// them all.
const damageLinesMax = 10

func checkCommand() *cli.Command {
	return &cli.Command{
		Name:        "check",
		Usage:       "compare a repacked model with its checksums",
		ArgsUsage:   "[MODEL]",
		Description: "Reads all of the file. Names what is damaged by block, expert and offset, and exits 1.",
		Flags:       []cli.Flag{namedModelFlag()},
		Action:      runCheck,
	}
}

func runCheck(c *cli.Context) error {
	path, err := oneModel(c)
	if err != nil {
		return err
	}
	ctx, release := interruptible(c.Context)
	defer release()
	line := newProgressLine(c.App.ErrWriter)
	experts, others := 0, 0
	result, err := repack.Check(ctx, path, line.transfer("checking "+path), func(d repack.Damage) {
		line.clear()
		if d.Tensor != "" {
			others++
		} else {
			experts++
		}
		if experts+others <= damageLinesMax {
			fmt.Fprintf(c.App.Writer, "%s: damaged: %v\n", path, d)
		}
	})
	line.clear()
	switch {
	case errors.Is(err, repack.ErrStock):
		return noChecksums(path, err)
	case err != nil:
		return err
	case experts+others > 0:
		return fmt.Errorf("%s: %d of %d experts and %d of %d other tensors are damaged", path, experts, result.Experts, others, result.Others)
	}
	fmt.Fprintf(c.App.Writer, "%s: %d experts and %d other tensors are as they were written\n", path, result.Experts, result.Others)
	return nil
}

// noChecksums says what repack would make of a file with the stock layout.
func noChecksums(path string, stock error) error {
	if err := repack.Possible(path); err != nil {
		return fmt.Errorf("%w, which has no checksums; repack cannot write a file that has: %w", stock, err)
	}
	return fmt.Errorf("%w, which has no checksums; repack writes a file that has", stock)
}
