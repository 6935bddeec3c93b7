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

func TestLayerThatIsOffIsStillMeasured(t *testing.T) {
	tr := predict.New([]int{8}, 2)
	tr.SetOff(0, true)
	if got := tr.Guess(0, []int32{1, 2}); got != nil || !tr.Off(0) {
		t.Errorf("guesses %v of a layer that is off", got)
	}
	tr.Routed(0, []int32{1, 2}, 1)
	if s := stats(tr); s.Recall() != 1 {
		t.Errorf("recall is %v", s.Recall())
	}
	tr.SetOff(0, false)
	if got := tr.Guess(0, []int32{1}); len(got) != 1 || tr.Off(0) {
		t.Errorf("guesses %v of a layer that is on again", got)
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
