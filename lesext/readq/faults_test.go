//go:build linux || darwin || windows

package readq

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/expert"
)

// faultyFile stands for a file system. Its handles share the content.
type faultyFile struct {
	content []byte
	reads   int // reads on handles for direct reads, the probe included
	// direct is asked before each direct read; it may shorten the read or fail.
	direct func(n int, length int) (int, error)
	// buffered is the same for reads on the other handle.
	buffered   func(length int) (int, error)
	align      int64
	openDirect error
	misaligned error
}

type faultyHandle struct {
	file   *faultyFile
	direct bool
}

func (f *faultyFile) open(path string, direct bool) (handle, error) {
	if direct && f.openDirect != nil {
		return nil, f.openDirect
	}
	return faultyHandle{f, direct}, nil
}

func (h faultyHandle) pread(p []byte, off int64) (n int, err error) {
	n = len(p)
	f := h.file
	if h.direct {
		f.reads++
		align := max(f.align, 512)
		if off%align != 0 || int64(len(p))%align != 0 {
			f.misaligned = fmt.Errorf("direct read of %d bytes at %d", len(p), off)
		}
		if f.direct != nil && f.reads > 1 {
			n, err = f.direct(f.reads-1, n)
		}
	} else if f.buffered != nil {
		n, err = f.buffered(n)
	}
	if err != nil || off >= int64(len(f.content)) {
		return 0, err
	}
	return copy(p[:n], f.content[off:]), nil
}

func (h faultyHandle) size() (int64, error) { return int64(len(h.file.content)), nil }
func (h faultyHandle) directAlign() int64   { return h.file.align }
func (h faultyHandle) close() error         { return nil }

// content is not a multiple of the block long, so that the last read is short.
func content() []byte {
	b := make([]byte, 20*expert.Align+1234)
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(chance.Uint32())
	}
	return b
}

// read reads an extent through a fresh, poisoned buffer.
func read(fs *Files, want expert.Extent) ([]byte, error) {
	buf := bytes.Repeat([]byte{0xA5}, int(want.ReadRange().Bytes))
	err := fs.ReadExtent(want, buf)
	return buf[want.Off%expert.Align:][:want.Bytes], err
}

// openFaulty opens the file and returns the lines it logs.
func openFaulty(t *testing.T, f *faultyFile, options FilesOptions) (*Files, *[]string) {
	t.Helper()
	if f.content == nil {
		f.content = content()
	}
	var lines []string
	options.open = f.open
	options.Logf = func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	fs, err := OpenFiles([]string{"m.gguf"}, options)
	if err != nil {
		t.Fatal(err)
	}
	return fs, &lines
}

// checkAll reads extents all over the file and compares them with the content.
func checkAll(t *testing.T, name string, fs *Files, f *faultyFile) {
	t.Helper()
	size := int64(len(f.content))
	extents := []expert.Extent{{Off: 0, Bytes: 1}, {Off: 0, Bytes: size}, {Off: size - 1, Bytes: 1}, {Off: 4096, Bytes: 8192}}
	for off := int64(17); off+9000 < size; off += 7777 {
		extents = append(extents, expert.Extent{Off: off, Bytes: 9000})
	}
	extents = append(extents, expert.Extent{Off: size - 6000, Bytes: 6000})
	for _, want := range extents {
		got, err := read(fs, want)
		if err != nil {
			t.Errorf("%s: %+v: %v", name, want, err)
		} else if !bytes.Equal(got, f.content[want.Off:want.Off+want.Bytes]) {
			t.Errorf("%s: %+v: wrong bytes", name, want)
		}
	}
	if f.misaligned != nil {
		t.Errorf("%s: %v", name, f.misaligned)
	}
}

func TestShortReadIsContinued(t *testing.T) {
	cases := map[string]func(n, length int) int{
		"512 of every read":  func(_, _ int) int { return 512 },
		"4096 of every read": func(_, _ int) int { return 4096 },
		"length less 512":    func(_, length int) int { return max(0, length-512) },
		"every third 700":    func(n, length int) int { return []int{700, length, length}[n%3] },
		"5000 of every read": func(_, _ int) int { return 5000 },
		"nothing":            func(_, _ int) int { return 0 },
	}
	for name, shorten := range cases {
		for _, align := range []int64{0, 512, 4096} {
			f := &faultyFile{align: align}
			f.direct = func(n, length int) (int, error) { return min(length, shorten(n, length)), nil }
			f.buffered = func(length int) (int, error) { return min(length, 1000), nil }
			fs, lines := openFaulty(t, f, FilesOptions{})
			if align == 0 {
				f.align = expert.Align // what must hold when nothing is told
			}
			checkAll(t, fmt.Sprintf("%s, alignment %d", name, align), fs, f)
			if len(*lines) != 0 {
				t.Errorf("%s: lines %q", name, *lines)
			}
		}
	}
}

func TestRefusedDirectReadsFallBackWithOneLine(t *testing.T) {
	refuse := func(from int, errno error) func(n, length int) (int, error) {
		return func(n, length int) (int, error) {
			if n >= from {
				return 0, errno
			}
			return length, nil
		}
	}
	cases := map[string]*faultyFile{
		"open fails":         {openDirect: errRefused},
		"open not supported": {openDirect: errUnsupported},
		"told impossible":    {align: -1},
		"alignment too wide": {align: 65536},
		"refused at once":    {direct: refuse(1, errRefused)},
		"refused later":      {direct: refuse(4, errRefused)},
	}
	for name, f := range cases {
		fs, lines := openFaulty(t, f, FilesOptions{})
		checkAll(t, name, fs, f)
		if len(*lines) != 1 || !strings.Contains((*lines)[0], "m.gguf") || fs.Direct(0) {
			t.Errorf("%s: direct is %t, lines %q", name, fs.Direct(0), *lines)
		}
	}
}

func TestForcedDirectReadIsAnErrorWhenRefused(t *testing.T) {
	f := &faultyFile{content: content(), openDirect: errRefused}
	_, err := OpenFiles([]string{"m.gguf"}, FilesOptions{ForceDirect: true, open: f.open})
	if !errors.Is(err, ErrNoDirect) || !errors.Is(err, errRefused) || !strings.Contains(err.Error(), "m.gguf") {
		t.Errorf("at open: %v", err)
	}
	f = &faultyFile{direct: func(int, int) (int, error) { return 0, errRefused }}
	fs, lines := openFaulty(t, f, FilesOptions{ForceDirect: true})
	_, err = read(fs, expert.Extent{Off: 5, Bytes: 100})
	if !errors.Is(err, ErrNoDirect) || !errors.Is(err, errRefused) || len(*lines) != 0 {
		t.Errorf("later: %v, lines %q", err, *lines)
	}
}

func TestBufferedModeNeverReadsDirectly(t *testing.T) {
	f := &faultyFile{}
	fs, lines := openFaulty(t, f, FilesOptions{Buffered: true})
	checkAll(t, "buffered", fs, f)
	if f.reads != 0 || len(*lines) != 0 || fs.Direct(0) {
		t.Errorf("%d direct reads, lines %q", f.reads, *lines)
	}
}

func TestReadErrorNamesFileAndPlace(t *testing.T) {
	f := &faultyFile{direct: func(int, int) (int, error) { return 0, errDevice }}
	fs, lines := openFaulty(t, f, FilesOptions{})
	_, err := read(fs, expert.Extent{Off: 0x2345, Bytes: 100})
	if !errors.Is(err, errDevice) || err.Error() != "read m.gguf at 0x2345, 100 bytes: "+errDevice.Error() {
		t.Errorf("error is %v", err)
	}
	if !fs.Direct(0) || len(*lines) != 0 {
		t.Errorf("a read error turns direct reads off, lines %q", *lines)
	}
}

func TestEndOfFileInsideTheExtentIsAnError(t *testing.T) {
	for _, options := range []FilesOptions{{}, {Buffered: true}} {
		f := &faultyFile{}
		fs, _ := openFaulty(t, f, options)
		size := int64(len(f.content))
		want := expert.Extent{Off: size - 5000, Bytes: 5000}
		if _, err := read(fs, want); err != nil {
			t.Errorf("the end of the file in the padding: %v", err)
		}
		for _, cut := range []int64{1, 4096, 5000, size} {
			f.content = slices.Clone(f.content)[:size-cut]
			_, err := read(fs, want)
			sizes := fmt.Sprintf("the file has %d bytes, it had %d when opened", size-cut, size)
			if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), sizes) || !strings.Contains(err.Error(), "m.gguf at") {
				t.Errorf("cut by %d: error is %v", cut, err)
			}
		}
	}
}
