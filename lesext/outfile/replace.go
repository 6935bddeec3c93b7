package outfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Kind says what a file is by its first bytes.
type Kind struct {
	Magic string
	Name  string // for people, with its article
}

// CheckReplaceable refuses a file that could not be written in the place of what has
// its name: what is there must be empty or of the same kind, and there must be room
// for a temporary name. A link stands for its target, whose name is returned.
func CheckReplaceable(path string, kind Kind) (string, error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = checkDirectory(filepath.Dir(path))
	case err == nil && !info.Mode().IsRegular():
		err = fmt.Errorf("%s is not a regular file", path)
	case err == nil:
		err = checkKind(path, kind)
	}
	if err != nil {
		return path, err
	}
	f, err := Begin(path)
	if err != nil {
		return path, err
	}
	return path, f.Discard()
}

func checkDirectory(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", path)
	}
	return err
}

// checkKind refuses a file with contents of another kind.
func checkKind(path string, kind Kind) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	begin := make([]byte, len(kind.Magic))
	n, err := io.ReadFull(file, begin)
	if n > 0 && string(begin) != kind.Magic {
		return fmt.Errorf("%s is there and is not %s; it is left as it is", path, kind.Name)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
