// Package outfile writes files that are either complete under their own name or
// not there at all. A File is written under a temporary name in the target's
// directory; Commit makes it durable and gives it its name, Discard removes it.
// What a program that was killed has left of a file goes when it is written anew.
// A File belongs to one goroutine, except that WriteAt may be called by several.
package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/les-project/les/lesext/system"
)

// ErrExists is returned by Check for a target that is there.
var ErrExists = errors.New("exists")

// File is a file that is being written.
type File struct {
	file *os.File // nil once it has been committed or discarded
	path string
}

// Check refuses a target that cannot be written, or that is one of the inputs,
// under whatever name. Unless force is set, one that exists is refused.
func Check(path string, force bool, inputs ...string) error {
	link, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if link.IsDir() {
		return fmt.Errorf("%s: is a directory", path)
	}
	if target, err := os.Stat(path); err == nil && !target.Mode().IsRegular() {
		return fmt.Errorf("%s: is not a regular file, nothing may take its place", path)
	}
	for _, input := range inputs {
		in, err := os.Stat(input)
		if err != nil {
			return err
		}
		if out, err := os.Stat(path); err == nil && os.SameFile(in, out) {
			return fmt.Errorf("%s: is the same file as the input %s", path, input)
		}
	}
	if !force {
		return fmt.Errorf("%s %w; --force replaces it", path, ErrExists)
	}
	return nil
}

// CheckSpace refuses a file that would fill its disk, before anything is
// written.
func CheckSpace(path string, bytes int64) error {
	free, err := system.FreeDiskBytes(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if free < bytes {
		return fmt.Errorf("%s: needs %d bytes, the disk has %d free", path, bytes, free)
	}
	return nil
}

// Create begins a file of that size. It refuses one that would fill its disk,
// and takes the room at once where the file system can, so that the file is in
// one piece and a full disk shows before anything is written.
func Create(path string, bytes int64) (*File, error) {
	sweep(path)
	if err := CheckSpace(path, bytes); err != nil {
		return nil, err
	}
	f, err := Begin(path)
	if err != nil {
		return nil, err
	}
	if err := reserve(f.file, bytes); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %d bytes: %w", path, bytes, err), f.Discard())
	}
	return f, nil
}

// Begin begins a file whose size is not known.
func Begin(path string) (*File, error) {
	sweep(path)
	file, err := createPart(path)
	if err != nil {
		return nil, err
	}
	return &File{file: file, path: path}, nil
}

// Path is the name that the file will have.
func (f *File) Path() string { return f.path }

// PartPath is the name that it has until then.
func (f *File) PartPath() string { return f.file.Name() }

// Bytes is its size now.
func (f *File) Bytes() (int64, error) {
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) { return f.file.Write(p) }

// WriteAt implements io.WriterAt.
func (f *File) WriteAt(p []byte, off int64) (int, error) { return f.file.WriteAt(p, off) }

// ReadAt implements io.ReaderAt.
func (f *File) ReadAt(p []byte, off int64) (int, error) { return f.file.ReadAt(p, off) }

// Commit makes the finished file durable under its own name. If it fails,
// Discard is still to be called.
func (f *File) Commit() error {
	err := f.file.Chmod(0o644)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return err
	}
	if err := f.file.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.file.Name(), f.path); err != nil {
		return err
	}
	f.file = nil
	return syncDir(filepath.Dir(f.path))
}

// Discard removes the file unless it has been committed. It may be called at
// any time and more than once.
func (f *File) Discard() error {
	if f.file == nil {
		return nil
	}
	f.file.Close() // it may be closed already; nothing of it is wanted
	err := os.Remove(f.file.Name())
	f.file = nil
	return err
}
