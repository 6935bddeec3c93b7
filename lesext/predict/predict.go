// Package predict keeps the statistics of the lookahead: what was guessed for a
// layer, what the layer then routed to, and how far to trust the guesses. It has
// no clock and no lock; the caller serialises all calls. All memory is taken by
// New.
package predict

// LayerStats counts the lookahead of one layer.
//
//	recall          = Right / RoutedGuessed
//	precision       = Right / Guessed
//	previous overlap = Repeated / RoutedAgain
type LayerStats struct {
	Steps         int64 // steps that routed
	StepsGuessed  int64 // of these, steps with a guess
	Guessed       int64 // experts guessed, after the cut
	RoutedGuessed int64 // experts routed in steps with a guess
	Right         int64 // experts both guessed and routed
	RoutedAgain   int64 // experts routed by one-token steps that follow another one
	Repeated      int64 // of these, experts the previous token used as well
}

// Recall is the share of the routed experts that were guessed.
func (s LayerStats) Recall() float64 { return ratio(s.Right, s.RoutedGuessed) }

// Precision is the share of the guessed experts that were routed.
func (s LayerStats) Precision() float64 { return ratio(s.Right, s.Guessed) }

// PreviousOverlap is the share of the routed experts that the previous token
// had used.
func (s LayerStats) PreviousOverlap() float64 { return ratio(s.Repeated, s.RoutedAgain) }

// Plus adds the counts of two runs of one layer, or of two layers.
func (s LayerStats) Plus(t LayerStats) LayerStats {
	return LayerStats{
		Steps: s.Steps + t.Steps, StepsGuessed: s.StepsGuessed + t.StepsGuessed,
		Guessed: s.Guessed + t.Guessed, RoutedGuessed: s.RoutedGuessed + t.RoutedGuessed, Right: s.Right + t.Right,
		RoutedAgain: s.RoutedAgain + t.RoutedAgain, Repeated: s.Repeated + t.Repeated,
	}
}

func ratio(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

const (
	// ranks is how many ranks of guesses are told apart; worse ones share the
	// last. Most models use 4 to 8 experts.
	ranks = 16
	// Whole is the chance of a guess that is always right.
	Whole = 256
	// worthMax bounds the memory of a rank: at that many guesses both counts are
	// halved, so that a change shows within a few hundred tokens.
	worthMax = 512
	// A rank begins as if priorRight of priorGuessed guesses had come true.
	priorRight, priorGuessed = 6, 8
)

// worth counts the guesses of one rank that were not in memory, and how many of
// them were right.
type worth struct{ guessed, right int }

func (w worth) chance() int { return (w.right + priorRight) * Whole / (w.guessed + priorGuessed) }

// layer is the state of one layer. A mark equals the step in which the expert
// was guessed or routed, so that no set is ever cleared.
type layer struct {
	stats    LayerStats
	guessed  []int64 // by expert: step of the last guess
	missing  []int64 // by expert: step of the last guess while it was not in memory
	routed   []int64 // by expert: step of the last routing
	rank     []uint8 // by expert: rank of that guess
	worth    [ranks]worth
	step     int64 // steps so far, plus one
	guesses  int64 // guesses for the coming step
	oneToken bool  // the previous step had one token
}

// Tracker follows the guesses of all layers.
type Tracker struct {
	layers     []layer
	guessesMax int
}

// New returns a tracker for layers with the given numbers of experts that uses
// at most guessesMax guesses for a layer and step; 0 uses none.
func New(experts []int, guessesMax int) *Tracker {
	t := &Tracker{layers: make([]layer, len(experts)), guessesMax: guessesMax}
	for i, n := range experts {
		t.layers[i] = layer{
			guessed: make([]int64, n), missing: make([]int64, n), routed: make([]int64, n),
			rank: make([]uint8, n), step: 1,
		}
	}
	return t
}

// Guess notes ranked guesses, best first, for the coming step of a layer, and
// returns those to act on: the best ones.
func (t *Tracker) Guess(layer int, ids []int32) []int32 {
	l := &t.layers[layer]
	act := ids[:min(len(ids), t.guessesMax)]
	if t.guessesMax > 0 {
		ids = act
	}
	for _, id := range ids {
		if l.guessed[id] != l.step {
			l.guessed[id] = l.step
			l.guesses++
		}
	}
	return act
}

// Missing notes that a guess for the coming step of a layer is not in memory. It
// returns how many of Whole such guesses of this rank came true so far. Those in
// memory do not count: what is popular is resident and easy to guess, and says
// nothing about what a read would be worth.
func (t *Tracker) Missing(layer int, id int32, rank int) (chance int) {
	l := &t.layers[layer]
	rank = min(rank, ranks-1)
	w := &l.worth[rank]
	chance = w.chance()
	if l.missing[id] == l.step {
		return chance
	}
	l.missing[id], l.rank[id] = l.step, uint8(rank)
	if w.guessed == worthMax {
		w.guessed, w.right = w.guessed/2, w.right/2
	}
	w.guessed++
	return chance
}

// Routed compares the guesses with the distinct experts a layer has routed to.
func (t *Tracker) Routed(layer int, ids []int32, tokens int) {
	l := &t.layers[layer]
	var right, repeated int64
	for _, id := range ids {
		if l.guessed[id] == l.step {
			right++
		}
		if l.missing[id] == l.step {
			l.worth[l.rank[id]].right++
		}
		if l.routed[id] == l.step-1 {
			repeated++
		}
		l.routed[id] = l.step
	}
	l.stats.Steps++
	if l.guesses > 0 {
		l.stats.StepsGuessed++
		l.stats.Guessed += l.guesses
		l.stats.RoutedGuessed += int64(len(ids))
		l.stats.Right += right
	}
	if tokens == 1 && l.oneToken {
		l.stats.RoutedAgain += int64(len(ids))
		l.stats.Repeated += repeated
	}
	l.oneToken = tokens == 1
	l.guesses = 0
	l.step++
}

// AppendStats appends the counts of all layers, in order.
func (t *Tracker) AppendStats(to []LayerStats) []LayerStats {
	for i := range t.layers {
		to = append(to, t.layers[i].stats)
	}
	return to
}

// Reset sets all counts to zero and keeps what is known of the running step.
func (t *Tracker) Reset() {
	for i := range t.layers {
		t.layers[i].stats = LayerStats{}
	}
}
