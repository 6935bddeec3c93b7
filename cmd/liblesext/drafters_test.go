package main

import (
	"fmt"
	"strings"
	"testing"
)

// besideTarget starts a server whose budget has 3 MiB more than its model alone
// takes with all experts in memory, and what that takes.
func besideTarget(t *testing.T, args ...string) (s *server, alone lesPlan) {
	t.Helper()
	args = append(args, "-m", model, "-c", "256", "-np", "1")
	s = startServer(t, "LES_SLOTS=all", "-m", model, "-c", "256", "-np", "1")
	alone = s.props(t).LES
	s.stop()
	return startServer(t, fmt.Sprintf("LES_BUDGET=%d", alone.Total+3<<20), args...), alone
}

func TestDrafterWithExpertsHasItsShareOfTheBudget(t *testing.T) {
	s, alone := besideTarget(t, "--spec-type", "draft-simple", "-md", model)
	complete(t, s.base, "func main() {")
	told := s.props(t).LES
	if len(told.Others) != 1 {
		t.Fatalf("%+v", told)
	}
	drafter, share := told.Others[0], told.Budget/8
	if aLayer := 6 * alone.SlotsBytes / int64(alone.Slots); drafter.SlotsBytes > share || drafter.SlotsBytes <= share-aLayer {
		t.Errorf("the drafter has slots of %d bytes; an eighth of the budget is %d", drafter.SlotsBytes, share)
	}
	if told.Slots >= alone.Slots || told.Total > told.Budget || told.Process < alone.Process+drafter.SlotsBytes {
		t.Errorf("beside the drafter %+v\nalone %+v", told, alone)
	}
	var changed lesPlan
	s.want(t, "/les", map[string]any{"model": "les-ref.gguf#2", "slots": "floor"}, &changed)
	if changed.Slots <= told.Slots || changed.Total > changed.Budget {
		t.Errorf("with a drafter at the floor %+v\nbefore %+v", changed, told)
	}
	if status, answer := s.send(t, "/les", fmt.Sprintf(`{"budget": %d}`, drafter.FloorBytes/2)); status != 400 || !strings.Contains(string(answer), "floor") {
		t.Errorf("%d %s", status, answer)
	}
}

func TestPlanTellsOfADrafterWithoutExperts(t *testing.T) {
	s, alone := besideTarget(t, "--spec-type", "draft-dspark", "-md", drafter)
	told := s.props(t).LES
	if told.Slots >= alone.Slots || told.Total > told.Budget || len(told.Others) != 0 {
		t.Errorf("%+v", told)
	}
	if log := s.stop(); !strings.Contains(log, "les-ref-dspark.gguf takes weights ") {
		t.Errorf("the log does not tell of the drafter: %s", tail(log))
	}
}

func TestSlotsComeBackWhenADrafterGoes(t *testing.T) {
	s, alone := besideTarget(t, "-md", model) // nothing drafts with it
	if told := s.props(t).LES; told.Slots != alone.Slots || len(told.Others) != 0 {
		t.Errorf("%+v", told)
	}
}
