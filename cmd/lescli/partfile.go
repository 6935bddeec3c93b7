package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/les-project/les/cmd/lescli/internal/outfile"
)

// partFile is a file that gets its name when it is whole.
type partFile struct {
	*os.File
	flag, name string
}

// createPart starts a file that a flag names. Whatever has the name stays until
// commit; what a program that was killed has left of it goes.
func createPart(flag, name string) (*partFile, error) {
	outfile.Sweep(name)
	file, err := outfile.CreatePart(name)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &partFile{file, flag, name}, nil
}

// commit gives the file its name.
func (p *partFile) commit() error {
	err := p.Chmod(0o644)
	if err = errors.Join(err, p.Close()); err == nil {
		err = os.Rename(p.Name(), p.name)
	}
	if err != nil {
		os.Remove(p.Name())
		return fmt.Errorf("--%s: %w", p.flag, err)
	}
	return nil
}

// discard removes the file.
func (p *partFile) discard() {
	p.Close()
	os.Remove(p.Name())
}

// checkReplaceable refuses, before the work is done, a file that could not be
// written after it, and one that is there and is of another kind: a kind is told
// by the first bytes. A link stands for its target, whose name is returned.
func checkReplaceable(flag, name, magic, kind string) (string, error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(filepath.Dir(name)); err != nil {
		return name, fmt.Errorf("--%s: %w", flag, err)
	} else if !info.IsDir() {
		return name, fmt.Errorf("--%s: %s is not a directory", flag, filepath.Dir(name))
	}
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return name, nil
	case err != nil:
		return name, fmt.Errorf("--%s: %w", flag, err)
	case !info.Mode().IsRegular():
		return name, fmt.Errorf("--%s: %s is not a regular file", flag, name)
	}
	file, err := os.Open(name)
	if err != nil {
		return name, fmt.Errorf("--%s: %w", flag, err)
	}
	defer file.Close()
	begin := make([]byte, len(magic))
	n, err := io.ReadFull(file, begin)
	if n > 0 && string(begin) != magic || err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return name, fmt.Errorf("--%s: %s is there and is not %s; it is left as it is", flag, name, kind)
	}
	return name, nil
}
