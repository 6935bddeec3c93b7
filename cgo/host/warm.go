package host

import (
	"errors"
	"os"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/outfile"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/warm"
)

// WarmKind is what a warm file is told by.
var WarmKind = outfile.Kind{Magic: warm.Magic, Name: "a warm file"}

// Warmable is an engine whose experts can be read ahead.
type Warmable interface {
	Geometry() expert.Geometry
	Warm(keys []expert.Key)
	Hot(n int) []sched.Use
}

// Warmth is the use of a warm file with one engine.
type Warmth struct {
	name     string
	engine   Warmable
	identity warm.Identity
	index    expert.Index
	before   []sched.Use // from the file
}

// StartWarm has the experts of a file read ahead, at most so many as there are
// slots. A file that cannot be used is told to ignored, and replaced by Save.
func StartWarm(name string, slots int, engine Warmable, ignored func(error)) (*Warmth, error) {
	g := engine.Geometry()
	w := &Warmth{name: name, engine: engine, index: expert.NewIndex(g)}
	var err error
	if w.identity, err = warm.Identify(g); err != nil {
		return nil, err
	}
	if w.before, err = w.read(); err != nil {
		ignored(err)
	}
	keys := make([]expert.Key, min(len(w.before), slots))
	for i := range keys {
		keys[i] = w.before[i].Key
	}
	engine.Warm(keys)
	return w, nil
}

func (w *Warmth) read() ([]sched.Use, error) {
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

// Save writes what was hot. Nil, and an engine that
// used nothing, write nothing.
func (w *Warmth) Save() error {
	if w == nil {
		return nil
	}
	hot := w.engine.Hot(w.index.Len())
	if len(hot) == 0 {
		return nil
	}
	file, err := outfile.Begin(w.name)
	if err != nil {
		return err
	}
	err = warm.Write(file, w.identity, w.index, warm.Merge(hot, w.before))
	if err == nil {
		err = file.Commit()
	}
	return errors.Join(err, file.Discard())
}
