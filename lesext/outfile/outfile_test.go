package outfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// entries lists a folder.
func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

func TestFileHasItsNameOnlyWhenItIsComplete(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	f, err := Create(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("end"), 7); err != nil {
		t.Fatal(err)
	}
	if names := entries(t, dir); len(names) != 1 || !strings.HasPrefix(names[0], "out.") || !strings.HasSuffix(names[0], ".part") {
		t.Errorf("before the end there are %v", names)
	}
	if err := errors.Join(f.Commit(), f.Discard()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || string(text) != "\x00\x00\x00\x00\x00\x00\x00end" || len(entries(t, dir)) != 1 {
		t.Errorf("file is %q, %v, among %v", text, err, entries(t, dir))
	}
}

func TestDiscardedFileLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	f, err := Create(filepath.Join(dir, "out"), 10)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Discard(), f.Discard()); err != nil || len(entries(t, dir)) != 0 {
		t.Errorf("error %v, left behind: %v", err, entries(t, dir))
	}
}

func TestFileThatDoesNotFitIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model")
	if _, err := Create(path, 1<<60); err == nil || !strings.Contains(err.Error(), path+": needs 1152921504606846976 bytes, the disk has ") {
		t.Errorf("error is %v", err)
	}
	if names := entries(t, dir); len(names) != 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestInputsAreNeverReplaced(t *testing.T) {
	dir := t.TempDir()
	in, hard, soft, other := filepath.Join(dir, "in"), filepath.Join(dir, "hard"), filepath.Join(dir, "soft"), filepath.Join(dir, "other")
	err := errors.Join(os.WriteFile(in, nil, 0o600), os.Link(in, hard), os.Symlink(in, soft), os.WriteFile(other, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{in, hard, soft, filepath.Join(dir, ".", "in")} {
		for _, force := range []bool{false, true} {
			if err := Check(path, force, other, in); err == nil || !strings.Contains(err.Error(), "is the same file as the input "+in) {
				t.Errorf("%s, force %v: error is %v", path, force, err)
			}
		}
	}
	if err := Check(other, false, in); !errors.Is(err, ErrExists) {
		t.Errorf("error is %v", err)
	}
	if err := errors.Join(Check(other, true, in), Check(filepath.Join(dir, "new"), false, in)); err != nil {
		t.Error(err)
	}
	if err := Check(dir, true, in); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error is %v", err)
	}
}
