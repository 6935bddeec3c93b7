package sched_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/sched"
)

// TestRealFileServesAllContexts runs contexts on a real file, read directly if
// the file system allows it, that ends with the last expert.
func TestRealFileServesAllContexts(t *testing.T) {
	g := splitGeometry(3, 12, 2)
	last := g.Layers[2].Spans[2].Extent(11)
	content := make([]byte, last.Off+last.Bytes)
	for i := range content {
		content[i] = pattern(int64(i))
	}
	g.Files[0] = filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(g.Files[0], content, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := readq.OpenFiles(g.Files, readq.FilesOptions{Logf: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	if err := g.CheckSizes(files.Sizes()); err != nil {
		t.Fatal(err)
	}
	r := newRig(t, sched.Config{Geometry: g, Slots: 5, Lanes: 4, Lookahead: 2, OnFail: func(err error) { t.Error(err) }})
	r.config.Reader = files
	r.open(t)
	var wait sync.WaitGroup
	for c := range uint64(2) {
		wait.Go(func() {
			if err := r.context(rand.New(rand.NewPCG(c, 9)), 50); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	r.sums(t)
}
