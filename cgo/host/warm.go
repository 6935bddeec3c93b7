package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/warm"
)

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

// Save writes what was hot, under a temporary name first. Nil, and an engine that
// used nothing, write nothing.
func (w *Warmth) Save() error {
	if w == nil {
		return nil
	}
	hot := w.engine.Hot(w.index.Len())
	if len(hot) == 0 {
		return nil
	}
	file, err := createPart(w.name)
	if err != nil {
		return err
	}
	err = warm.Write(file, w.identity, w.index, warm.Merge(hot, w.before))
	err = errors.Join(err, file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), w.name)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}

// checkWarm refuses, before the work is done, a file that Save could not write, and
// one that is there and is none. A link stands for its target, whose name is
// returned.
func checkWarm(name string) (string, error) {
	name, err := checkWarmKind(name)
	if err != nil {
		return name, err
	}
	file, err := createPart(name)
	if err != nil {
		return name, err
	}
	return name, errors.Join(file.Close(), os.Remove(file.Name()))
}

// createPart starts a file that is to have the name when it is whole.
func createPart(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
}

func checkWarmKind(name string) (string, error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	info, err := os.Stat(name)
	if errors.Is(err, os.ErrNotExist) {
		info, err = os.Stat(filepath.Dir(name))
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", filepath.Dir(name))
		}
		return name, err
	}
	if err != nil {
		return name, err
	}
	if !info.Mode().IsRegular() {
		return name, fmt.Errorf("%s is not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return name, err
	}
	defer file.Close()
	begin := make([]byte, min(info.Size(), int64(len(warm.Magic))))
	if _, err := io.ReadFull(file, begin); err != nil {
		return name, err
	}
	if len(begin) > 0 && string(begin) != warm.Magic {
		return name, fmt.Errorf("%s is there and is not a warm file; it is left as it is", name)
	}
	return name, nil
}
