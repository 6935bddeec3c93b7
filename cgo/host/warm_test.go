package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
)

// usedOnce is an engine that used one expert.
type usedOnce struct{ geometry expert.Geometry }

func (e usedOnce) Geometry() expert.Geometry { return e.geometry }
func (usedOnce) Warm([]expert.Key)           {}
func (usedOnce) Hot(int) []sched.Use         { return []sched.Use{{Uses: 1}} }

func TestSavedWarmFileLeavesNothingOfAKilledProgram(t *testing.T) {
	dir := t.TempDir()
	name, leftover := filepath.Join(dir, "warm"), filepath.Join(dir, "warm.4096.part")
	if err := os.WriteFile(leftover, []byte("begun"), 0o600); err != nil {
		t.Fatal(err)
	}
	span := expert.Span{Stride: expert.Align, Bytes: expert.Align}
	engine := usedOnce{expert.Geometry{Align: expert.Align, SlotBytes: expert.Align,
		Layers: []expert.Layer{{Experts: 4, Used: 1, Spans: []expert.Span{span}}}}}
	w, err := StartWarm(name, 1, engine, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Save(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "warm" {
		t.Errorf("there are %v, %v", entries, err)
	}
	if again, err := StartWarm(name, 1, engine, func(err error) { t.Error(err) }); err != nil || len(again.before) != 1 {
		t.Errorf("read back: %+v, %v", again, err)
	}
}
