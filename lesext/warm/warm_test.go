package warm_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/warm"
)

func geometry(files ...string) expert.Geometry {
	g := expert.Geometry{Files: files, Align: expert.Align, SlotBytes: expert.Align}
	for i := range 3 {
		span := expert.Span{Off: int64(i) << 16, Stride: expert.Align, Bytes: expert.Align}
		g.Layers = append(g.Layers, expert.Layer{Block: i, Experts: 16, Used: 2, Spans: []expert.Span{span}})
	}
	return g
}

func use(layer, id int32, uses uint32) sched.Use {
	return sched.Use{Key: expert.Key{Layer: layer, ID: id}, Uses: uses}
}

var someUses = []sched.Use{use(2, 15, 1000000), use(0, 3, 7), use(1, 0, 1)}

func written(t testing.TB, of warm.Identity, uses []sched.Use) []byte {
	t.Helper()
	var file bytes.Buffer
	if err := warm.Write(&file, of, expert.NewIndex(geometry()), uses); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestWarmFileIsReadAsWritten(t *testing.T) {
	id := warm.Identity{1, 2}
	uses, err := warm.Read(bytes.NewReader(written(t, id, someUses)), id, expert.NewIndex(geometry()))
	if err != nil || !slices.Equal(uses, someUses) {
		t.Errorf("uses %v, error %v", uses, err)
	}
}

func TestWarmFileOfAnotherModelIsTold(t *testing.T) {
	_, err := warm.Read(bytes.NewReader(written(t, warm.Identity{1}, someUses)), warm.Identity{2}, expert.NewIndex(geometry()))
	if !errors.Is(err, warm.ErrOtherModel) {
		t.Errorf("error %v", err)
	}
}

func TestDamagedWarmFilesAreRefused(t *testing.T) {
	index, whole := expert.NewIndex(geometry()), written(t, warm.Identity{}, someUses)
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x41
		for _, file := range [][]byte{bad, whole[:i]} {
			if _, err := warm.Read(bytes.NewReader(file), warm.Identity{}, index); !errors.Is(err, warm.ErrFormat) && !errors.Is(err, warm.ErrOtherModel) {
				t.Errorf("byte %d: error %v", i, err)
			}
		}
	}
	for want, uses := range map[string][]sched.Use{"0 uses": {use(0, 1, 0)}, "expert 1 with": {use(0, 1, 2), use(0, 1, 2)}} {
		if _, err := warm.Read(bytes.NewReader(written(t, warm.Identity{}, uses)), warm.Identity{}, index); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	endless := append(bytes.Clone(whole), make([]byte, 1<<20)...)
	if _, err := warm.Read(bytes.NewReader(endless), warm.Identity{}, index); !errors.Is(err, warm.ErrFormat) {
		t.Errorf("error %v", err)
	}
}

func TestShortRunDoesNotWipeOutLongOnes(t *testing.T) {
	got := warm.Merge([]sched.Use{use(0, 1, 3), use(0, 2, 1)}, []sched.Use{use(1, 1, 1000), use(0, 2, 20), use(2, 2, 1)})
	if want := []sched.Use{use(1, 1, 500), use(0, 2, 11), use(0, 1, 3)}; !slices.Equal(got, want) {
		t.Errorf("merged %v, want %v", got, want)
	}
}

// TestModelsOfOneShapeAreToldApart changes the beginning, the weights, and the
// size of a file.
func TestModelsOfOneShapeAreToldApart(t *testing.T) {
	dir := t.TempDir()
	identify := func(name string, change func([]byte) []byte) warm.Identity {
		content := bytes.Repeat([]byte{5}, 1<<20)
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, change(content), 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := warm.Identify(geometry(path))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	same := func(b []byte) []byte { return b }
	original := identify("a", same)
	if identify("b", same) != original {
		t.Error("the identity depends on the name")
	}
	changes := map[string]func([]byte) []byte{
		"begin":   func(b []byte) []byte { b[1000]++; return b },
		"weights": func(b []byte) []byte { clear(b[len(b)/2:]); return b },
		"end":     func(b []byte) []byte { b[len(b)-1]++; return b },
		"longer":  func(b []byte) []byte { return append(b, 5) },
		"shorter": func(b []byte) []byte { return b[:100] },
	}
	for name, change := range changes {
		if identify(name, change) == original {
			t.Errorf("%s: the identity is the same", name)
		}
	}
	if _, err := warm.Identify(geometry(filepath.Join(dir, "none"))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(written(f, warm.Identity{}, someUses))
	f.Fuzz(func(t *testing.T, file []byte) {
		index := expert.NewIndex(geometry())
		uses, err := warm.Read(bytes.NewReader(file), warm.Identity{}, index)
		if err == nil && len(uses) > index.Len() {
			t.Errorf("%d uses of %d experts", len(uses), index.Len())
		}
	})
}
