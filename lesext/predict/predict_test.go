package predict_test

import (
	"slices"
	"testing"

	"github.com/les-project/les/lesext/predict"
)

func stats(t *predict.Tracker) predict.LayerStats { return t.AppendStats(nil)[0] }

func TestRecallAndPrecision(t *testing.T) {
	tr := predict.New([]int{8}, 4)
	tr.Guess(0, []int32{1, 2, 3, 4})
	tr.Routed(0, []int32{2, 3, 7}, 1)
	tr.Routed(0, []int32{5}, 1) // without a guess
	s := stats(tr)
	if s.Steps != 2 || s.StepsGuessed != 1 || s.Recall() != 2.0/3 || s.Precision() != 0.5 {
		t.Errorf("recall %v, precision %v: %+v", s.Recall(), s.Precision(), s)
	}
	tr.Reset()
	if s := stats(tr); s != (predict.LayerStats{}) || s.Recall() != 0 {
		t.Errorf("after the reset: %+v", s)
	}
}

func TestGuessesAreCutAtTheirLimit(t *testing.T) {
	tr := predict.New([]int{8}, 2)
	if got := tr.Guess(0, []int32{6, 5, 4}); !slices.Equal(got, []int32{6, 5}) {
		t.Errorf("guesses to act on: %v", got)
	}
	tr.Guess(0, []int32{6, 5}) // guessed again by another context
	tr.Routed(0, []int32{4, 6}, 1)
	if s := stats(tr); s.Guessed != 2 || s.Right != 1 {
		t.Errorf("%d guessed, %d right, want 2 and 1", s.Guessed, s.Right)
	}
}

func TestChanceOfAGuessFollowsWhatCameTrue(t *testing.T) {
	tr := predict.New([]int{8}, 2)
	for step := range 400 {
		tr.Guess(0, []int32{1, 2})
		good, bad := tr.Missing(0, 1, 0), tr.Missing(0, 2, 1)
		tr.Missing(0, 1, 0) // by another context: counted once
		if step == 0 && good != bad {
			t.Errorf("ranks begin with %d and %d", good, bad)
		}
		if step == 399 && (good < 240 || bad > 16) {
			t.Errorf("always right: %d, never right: %d of %d", good, bad, predict.Whole)
		}
		tr.Routed(0, []int32{1, 3}, 1)
	}
	for range 400 { // the other way round, from then on
		tr.Guess(0, []int32{1, 2})
		tr.Missing(0, 1, 0)
		tr.Missing(0, 2, 1)
		tr.Routed(0, []int32{2}, 1)
	}
	if good := tr.Missing(0, 2, 1); good < predict.Whole/2 {
		t.Errorf("chance %d of %d after 400 right guesses", good, predict.Whole)
	}
}

func TestPreviousOverlapCountsOneTokenStepsOnly(t *testing.T) {
	tr := predict.New([]int{8}, 0)
	tr.Routed(0, []int32{1, 2}, 1)
	tr.Routed(0, []int32{2, 3}, 1)
	tr.Routed(0, []int32{2, 3, 4}, 5)
	tr.Routed(0, []int32{4, 5}, 1) // the step before had five tokens
	tr.Routed(0, []int32{4, 5}, 1)
	if s := stats(tr); s.RoutedAgain != 4 || s.Repeated != 3 || s.PreviousOverlap() != 0.75 {
		t.Errorf("overlap %v: %+v", s.PreviousOverlap(), s)
	}
}
