//go:build linux || darwin || freebsd || windows

package outfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// What a killed program has left is replaced; what another one is writing, and
// files of other names, stay.
func TestLeftoverOfAKilledProgramIsReplaced(t *testing.T) {
	dir := t.TempDir()
	others := []string{"model.12.part.part", "model.a1.part", "model.part", "model..part", "other.12.part", "xmodel.12.part"}
	for _, name := range append([]string{"model.12.part", "model.4096.part"}, others...) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("begun"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "model.13.part"), 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := Create(filepath.Join(dir, "model"), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Discard()
	second, err := Create(filepath.Join(dir, "model"), 10)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Discard()
	want := append(others, "model.13.part", filepath.Base(first.file.Name()), filepath.Base(second.file.Name()))
	slices.Sort(want)
	if got := entries(t, dir); !slices.Equal(got, want) {
		t.Errorf("there are %v, want %v", got, want)
	}
	if err := second.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := first.Commit(); err != nil {
		t.Error(err)
	}
}
