package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/warm"
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
	return checkReplaceable(warmFlagName, c.String(warmFlagName), warm.Magic, "a warm file")
}

// warmth is the use of a warm file in one session.
type warmth struct {
	name     string
	engine   engine
	identity warm.Identity
	index    expert.Index
	before   []sched.Use // from the file
}

// startWarm has the experts of the file read ahead. A file that cannot be used
// is named in one line, and replaced at the end.
func startWarm(name string, e engine, log io.Writer) (*warmth, error) {
	g := e.Geometry()
	w := &warmth{name: name, engine: e, index: expert.NewIndex(g)}
	var err error
	if w.identity, err = warm.Identify(g); err != nil {
		return nil, err
	}
	if w.before, err = w.read(); err != nil {
		fmt.Fprintf(log, "--%s: %s is ignored, and replaced at the end: %v\n", warmFlagName, name, err)
	}
	keys := make([]expert.Key, min(len(w.before), e.Plan().SlotCount))
	for i := range keys {
		keys[i] = w.before[i].Key
	}
	e.Warm(keys)
	return w, nil
}

func (w *warmth) read() ([]sched.Use, error) {
	file, err := os.Open(w.name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil // the first run
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() == 0 {
		return nil, nil
	}
	return warm.Read(file, w.identity, w.index)
}

// save writes what was hot. Nil, and a session that used nothing, write nothing.
func (w *warmth) save() error {
	if w == nil {
		return nil
	}
	hot := w.engine.Hot(w.index.Len())
	if len(hot) == 0 {
		return nil
	}
	file, err := createPart(warmFlagName, w.name)
	if err != nil {
		return err
	}
	if err := warm.Write(file, w.identity, w.index, warm.Merge(hot, w.before)); err != nil {
		file.discard()
		return fmt.Errorf("--%s: %w", warmFlagName, err)
	}
	return file.commit()
}
