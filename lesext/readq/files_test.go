package readq_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
)

func alignedBytes(n int64) []byte {
	b := make([]byte, n+expert.Align)
	skip := int64(-uintptr(unsafe.Pointer(&b[0])) % expert.Align)
	return b[skip : skip+n : skip+n]
}

// writeFile writes a file whose size is no multiple of a block.
func writeFile(t *testing.T) (path string, content []byte) {
	t.Helper()
	content = make([]byte, 1<<20+777)
	chance := rand.NewChaCha8([32]byte{})
	if _, err := chance.Read(content); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestRealFileIsReadByAllLanes(t *testing.T) {
	path, content := writeFile(t)
	for _, options := range []readq.FilesOptions{{Logf: t.Logf}, {Buffered: true}} {
		files, err := readq.OpenFiles([]string{path}, options)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("direct: %t", files.Direct(0))
		if sizes := files.Sizes(); len(sizes) != 1 || sizes[0] != int64(len(content)) {
			t.Errorf("sizes %v", sizes)
		}
		var wait sync.WaitGroup
		for lane := range 4 {
			wait.Go(func() {
				for i := range int64(50) {
					off := (i*30011 + int64(lane)*7919) % (int64(len(content)) - 20000)
					readAndCompare(t, files, expert.Extent{Off: off, Bytes: 20000}, content)
				}
			})
		}
		wait.Wait()
		readAndCompare(t, files, expert.Extent{Bytes: int64(len(content))}, content)
		if err := files.Close(); err != nil {
			t.Error(err)
		}
	}
}

func readAndCompare(t *testing.T, files *readq.Files, want expert.Extent, content []byte) {
	buf := alignedBytes(want.ReadRange().Bytes)
	if err := files.ReadExtent(want, buf); err != nil {
		t.Error(err)
		return
	}
	if !bytes.Equal(buf[want.Off%expert.Align:][:want.Bytes], content[want.Off:want.Off+want.Bytes]) {
		t.Errorf("%+v: wrong bytes", want)
	}
}

func TestFileThatShrinksIsNoticed(t *testing.T) {
	path, content := writeFile(t)
	for _, buffered := range []bool{false, true} {
		files, err := readq.OpenFiles([]string{path}, readq.FilesOptions{Buffered: buffered})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 100000); err != nil {
			t.Fatal(err)
		}
		want := expert.Extent{Off: 90000, Bytes: 20000}
		err = files.ReadExtent(want, alignedBytes(want.ReadRange().Bytes))
		if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "the file has 100000 bytes") {
			t.Errorf("buffered %t: error is %v", buffered, err)
		}
		if err := files.Close(); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMissingFileIsNamed(t *testing.T) {
	path, _ := writeFile(t)
	_, err := readq.OpenFiles([]string{path, path + ".none"}, readq.FilesOptions{})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), ".none") {
		t.Errorf("error is %v", err)
	}
}
