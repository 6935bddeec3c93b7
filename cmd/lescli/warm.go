package main

import (
	"fmt"
	"io"

	"github.com/les-project/les/cgo/host"
	"github.com/urfave/cli/v2"
)

const warmFlagName = "les-warm"

func warmFlag() cli.Flag {
	return &cli.StringFlag{Name: warmFlagName, Usage: "file with the experts that were hot before: they are read ahead in the background, and the file is written anew at the end"}
}

// parseWarm returns the file to use, empty for none.
func parseWarm(c *cli.Context, les lesOptions) (string, error) {
	switch {
	case !c.IsSet(warmFlagName):
		return "", nil
	case c.String(warmFlagName) == "":
		return "", usagef("--%s is empty", warmFlagName)
	case les.mode == lesOff:
		return "", usagef("--les off and --%s contradict", warmFlagName)
	}
	return checkReplaceable(warmFlagName, c.String(warmFlagName), host.WarmKind)
}

// startWarm has the experts of the file read ahead. A file that cannot be used
// is named in one line, and replaced at the end.
func startWarm(name string, e engine, log io.Writer) (*host.Warmth, error) {
	return host.StartWarm(name, e.Plan().SlotCount, e, func(err error) {
		fmt.Fprintf(log, "--%s: %s is ignored, and replaced at the end: %v\n", warmFlagName, name, err)
	})
}

// saveWarm writes what was hot in a session.
func saveWarm(w *host.Warmth) error {
	if err := w.Save(); err != nil {
		return fmt.Errorf("--%s: %w", warmFlagName, err)
	}
	return nil
}
