package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
)

// openReference opens the reference model, whose experts take tens of megabytes, with
// all slots, and waits until there is memory behind them.
func openReference(t *testing.T) *session {
	t.Helper()
	path := filepath.Join("..", "..", defaultModel)
	s := openTiny(t, path, lesOptions{mode: lesOn, slots: slotsAll, lookahead: 1}, io.Discard)
	s.engine.WaitPopulated()
	return s
}

// alone runs the test in a process of its own, where no other test has left memory that
// is given back meanwhile, and reports whether this is that process.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "LES_TEST_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	command := exec.Command(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	command.Env = append(os.Environ(), variable+"=1")
	out, err := command.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) && !bytes.Contains(out, []byte("--- SKIP: "+t.Name())) {
		t.Fatalf("%v: %s", err, out)
	}
	if bytes.Contains(out, []byte("--- SKIP: "+t.Name())) {
		t.Skipf("%s", out)
	}
	return false
}

func TestMemoryOfSlotsComesAndGoesWithThem(t *testing.T) {
	if !alone(t) {
		return
	}
	closed := les.ResidentBytes()
	s := openReference(t)
	all := s.engine.Plan()
	if les.ResidentBytes()-closed < all.Slots {
		t.Skip("this system puts memory behind slots when they are read into, as Linux before 5.14 and its emulators do")
	}
	debug.FreeOSMemory() // what opening the model has left
	before := les.ResidentBytes()
	for range 3 {
		if err := s.engine.SetSlots(0); err != nil {
			t.Fatal(err)
		}
		floor := s.engine.Plan()
		gone := float64(before - les.ResidentBytes())
		want := float64(all.Slots - floor.Slots)
		if want < 30e6 || math.Abs(gone-want) > 0.05*want {
			t.Errorf("%.0f bytes less after %.0f bytes of slots were taken away", gone, want)
		}
		if err := s.engine.SetSlots(math.MaxInt); err != nil {
			t.Fatal(err)
		}
		s.engine.WaitPopulated()
		if back := float64(les.ResidentBytes() - before); math.Abs(back) > 0.05*want {
			t.Errorf("%.0f bytes more than before when all slots are there again", back)
		}
	}
}

// TestSlotsThatAreAddedAreFilled waits for the background to read all experts.
func TestSlotsThatAreAddedAreFilled(t *testing.T) {
	s := openReference(t)
	for range 2 {
		for deadline := time.Now().Add(time.Minute); !s.engine.Idle(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the experts are not read in a minute")
			}
		}
		before := s.stats().BytesDemand
		batch := llama.NewBatch(8)
		for pos := range 8 {
			batch.Add(llama.Token(100+pos), pos, 0, true)
		}
		s.lctx.Clear()
		if err := s.decode(batch); err != nil {
			t.Error(err)
		}
		batch.Close()
		if read := s.stats().BytesDemand - before; read != 0 {
			t.Errorf("%d bytes were read on demand with every expert in memory", read)
		}
		if err := errors.Join(s.engine.SetSlots(1), s.engine.SetSlots(math.MaxInt)); err != nil {
			t.Error(err)
		}
	}
}

func TestBudgetCanChangeWhileTheEngineRuns(t *testing.T) {
	e := openReference(t).engine.(*lesEngine).engine
	all := e.Plan()
	want := all.Total - all.Slots/2
	half, err := e.SetBudget(want)
	if err != nil || half.Total > want || half.Total < want-2*half.SlotBytes || half.Budget != want || e.Plan() != half {
		t.Errorf("plan %+v for a budget of %d, %v", half, want, err)
	}
	var refused *plan.BudgetError
	if same, err := e.SetBudget(half.Floor - 1); !errors.As(err, &refused) || refused.Floor != half.Floor || same != half {
		t.Errorf("a budget below the floor of %d: %v", half.Floor, err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := e.SetSlots(1); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: %v", err)
	}
}

func TestVerifyWhileSlotsComeAndGo(t *testing.T) {
	stdout, stderr, code := lescli("verify", "-m", tinyModel(t, "tiny-qwen35moe"), "--les-slots", "floor,all", "--resize", "1ms",
		"--prompt-tokens", "7", "-ub", "1,16", "--gen", "16", "--seqs", "3")
	if code != exitOK || !strings.Contains(stdout, "changes of the number of slots") {
		t.Errorf("exit code %d, %s%s", code, stdout, stderr)
	}
	expectFailure(t, exitUsage, []string{"--resize"}, "verify", "--resize", "-1s")
}
