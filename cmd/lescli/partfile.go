package main

import (
	"fmt"

	"github.com/les-project/les/lesext/outfile"
)

// partFile is a file that a flag names and that gets its name when it is whole.
type partFile struct {
	*outfile.File
	flag string
}

// createPart starts a file. Whatever has the name stays until commit.
func createPart(flag, name string) (*partFile, error) {
	file, err := outfile.Begin(name)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", flag, err)
	}
	return &partFile{file, flag}, nil
}

// commit gives the file its name.
func (p *partFile) commit() error {
	if err := p.Commit(); err != nil {
		p.Discard()
		return fmt.Errorf("--%s: %w", p.flag, err)
	}
	return nil
}

// checkReplaceable refuses, before the work is done, a file that could not be
// written after it, and one that is there and is of another kind. A link stands for
// its target, whose name is returned.
func checkReplaceable(flag, name string, kind outfile.Kind) (string, error) {
	name, err := outfile.CheckReplaceable(name, kind)
	if err != nil {
		err = fmt.Errorf("--%s: %w", flag, err)
	}
	return name, err
}
