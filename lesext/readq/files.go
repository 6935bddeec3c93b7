package readq

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/les-project/les/lesext/expert"
)

// ErrNoDirect is returned by OpenFiles when direct reads are forced and a file
// refuses them, and by a read that is refused later.
var ErrNoDirect = errors.New("direct reads are refused")

// FilesOptions configures OpenFiles. The zero value reads directly where the
// file system allows it.
type FilesOptions struct {
	// Buffered reads through the page cache and asks for no direct reads.
	Buffered bool
	// ForceDirect makes it an error that a file cannot be read directly.
	ForceDirect bool
	// Logf receives one line for each file that falls back to buffered reads.
	Logf func(format string, args ...any)

	// open replaces openHandle in tests.
	open func(path string, direct bool) (handle, error)
}

// handle is an open file with positioned reads that may be short. At the end of
// the file pread returns 0 bytes and no error. EINTR is passed on.
type handle interface {
	pread(p []byte, off int64) (int, error)
	size() (int64, error)
	// directAlign returns what direct reads of the file must be aligned to, as
	// far as the system tells: 0 when it does not, -1 when it tells that direct
	// reads are impossible.
	directAlign() int64
	close() error
}

// Files reads the model files with positioned reads, directly where possible.
// Each file has one handle for direct reads and one for buffered reads; a
// positioned read keeps no position, so all lanes share them.
type Files struct {
	files   []*file
	options FilesOptions
}

// file is one open model file.
type file struct {
	path     string
	bytes    int64 // size when it was opened
	direct   handle
	buffered handle
	align    int64 // where a direct read may continue after a short one
	// refused is stored by the lane whose direct read is refused and loaded by
	// all lanes before a read.
	refused atomic.Bool
}

// OpenFiles opens all files and probes each with one real aligned read.
func OpenFiles(paths []string, options FilesOptions) (*Files, error) {
	if options.open == nil {
		options.open = openHandle
	}
	if options.Logf == nil {
		options.Logf = func(string, ...any) {}
	}
	fs := &Files{options: options}
	for _, path := range paths {
		f, err := fs.openFile(path)
		if err != nil {
			return nil, errors.Join(err, fs.Close())
		}
		fs.files = append(fs.files, f)
	}
	return fs, nil
}

// Sizes returns the sizes the files had when they were opened, in order.
func (fs *Files) Sizes() []int64 {
	sizes := make([]int64, len(fs.files))
	for i, f := range fs.files {
		sizes[i] = f.bytes
	}
	return sizes
}

// Direct reports whether a file is read directly at present.
func (fs *Files) Direct(file int) bool {
	f := fs.files[file]
	return f.direct != nil && !f.refused.Load()
}

// ReadExtent implements Reader.
func (fs *Files) ReadExtent(want expert.Extent, buf []byte) error {
	f := fs.files[want.File]
	if fs.Direct(want.File) {
		err := f.readDirect(want, buf)
		if !refusal(err) {
			return f.explain(want, err)
		}
		if fs.options.ForceDirect {
			return f.explain(want, fmt.Errorf("%w: %w", ErrNoDirect, err))
		}
		if !f.refused.Swap(true) {
			fs.logFallback(f, err)
		}
	}
	head := want.Off % expert.Align
	return f.explain(want, f.readFull(f.buffered, buf[head:head+want.Bytes], want.Off))
}

// Close closes all files. No read may be in flight.
func (fs *Files) Close() error {
	var errs []error
	for _, f := range fs.files {
		errs = append(errs, f.close())
	}
	fs.files = nil
	return errors.Join(errs...)
}

func (fs *Files) openFile(path string) (*file, error) {
	buffered, err := fs.options.open(path, false)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := &file{path: path, buffered: buffered, align: expert.Align}
	if f.bytes, err = buffered.size(); err != nil {
		return nil, errors.Join(fmt.Errorf("size of %s: %w", path, err), f.close())
	}
	if fs.options.Buffered {
		return f, nil
	}
	err = f.openDirect(fs.options.open)
	if err == nil {
		return f, nil
	}
	if fs.options.ForceDirect {
		return nil, errors.Join(fmt.Errorf("open %s: %w: %w", path, ErrNoDirect, err), f.close())
	}
	fs.logFallback(f, err)
	return f, nil
}

func (fs *Files) logFallback(f *file, err error) {
	fs.options.Logf("%s: %v: %v; reading through the page cache", f.path, ErrNoDirect, err)
}

// openDirect opens the direct handle and tries it: some file systems open
// directly and then refuse every read.
func (f *file) openDirect(open func(string, bool) (handle, error)) error {
	h, err := open(f.path, true)
	if err != nil {
		return err
	}
	if err := f.probe(h); err != nil {
		return errors.Join(err, h.close())
	}
	f.direct = h
	return nil
}

func (f *file) probe(h handle) error {
	switch align := h.directAlign(); {
	case align < 0:
		return errors.New("the file system has none")
	case align > expert.Align:
		return fmt.Errorf("alignment to %d is asked for, only %d is given", align, expert.Align)
	case align > 0:
		f.align = align
	}
	_, err := pread(h, alignedBlock(), 0)
	return err
}

func (f *file) close() error {
	err := f.buffered.close()
	if f.direct != nil {
		err = errors.Join(err, f.direct.close())
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", f.path, err)
	}
	return nil
}

// readDirect reads the widened range. After a short read it goes on at the last
// aligned point reached, or leaves the tail to a buffered read when there is no
// new one:
//
//	range:   |block    |block    |block    |block    |
//	wanted:      [............................]
//	got:     [...............]
//	goes on:           [..................
func (f *file) readDirect(want expert.Extent, buf []byte) error {
	base := want.ReadRange().Off
	end := want.Off + want.Bytes - base
	var at int64
	for {
		n, err := pread(f.direct, buf[at:], base+at)
		if err != nil {
			return err
		}
		reached := at + int64(n)
		if reached >= end {
			return nil
		}
		next := reached - reached%f.align
		if next <= at {
			return f.readFull(f.buffered, buf[reached:end], base+reached)
		}
		at = next
	}
}

// readFull reads all of p, which the file must hold.
func (f *file) readFull(h handle, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := pread(h, p, off)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// explain adds which bytes of which file could not be read, and for an early
// end of the file what size it has now.
func (f *file) explain(want expert.Extent, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		now, sizeErr := f.buffered.size()
		if sizeErr == nil {
			err = fmt.Errorf("%w: the file has %d bytes, it had %d when opened", err, now, f.bytes)
		}
	}
	return &os.PathError{Op: "read", Path: fmt.Sprintf("%s at %#x, %d bytes", f.path, want.Off, want.Bytes), Err: err}
}
