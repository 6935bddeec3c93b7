package main

import (
	"math"
	"math/rand/v2"

	"github.com/les-project/les/cgo/llama"
)

// draftSynthetic is the type of a drafter that knows the text.
const draftSynthetic = "synthetic"

// syntheticDraft is how often such a drafter is right.
type syntheticDraft struct {
	// Acceptance is the chance of each position if all before it are right; the
	// last one holds for all behind it.
	Acceptance []float64
	// Confident drafters say how sure they are: some drafts are easier than others,
	// and what they say is off by a normal error of Noise.
	Confident bool
	Noise     float64
	Seed      uint64
}

// synthetic proposes what a text goes on with, or a wrong token. Whether it is
// right depends on the seed and the place in the text alone, so that all arms of
// a bench have the same luck. It takes no time.
type synthetic struct {
	syntheticDraft
	max   int
	vocab int
	round int
	text  []llama.Token
}

func (s *synthetic) Max() int                                  { return s.max }
func (s *synthetic) Sequential() bool                          { return false }
func (s *synthetic) Clear()                                    {}
func (s *synthetic) Begin([]llama.Token)                       {}
func (s *synthetic) Process(*llama.Batch, []llama.Token) error { return nil }
func (s *synthetic) Accept(int)                                {}
func (s *synthetic) Close()                                    {}

func (s *synthetic) Draft(tokens []llama.Token, n int, draft []llama.Token, confidences []float32) ([]llama.Token, []float32) {
	for i := range min(n, len(s.text)-len(tokens)) {
		at := len(tokens) + i
		r := rand.New(rand.NewPCG(s.Seed^uint64(s.round)<<32, uint64(at)))
		chance := s.chance(i, r.Float64())
		token := s.text[at]
		if r.Float64() >= chance {
			token = llama.Token((int(token) + 1 + r.IntN(s.vocab-1)) % s.vocab)
		}
		draft = append(draft, token)
		if s.Confident {
			confidences = append(confidences, float32(math.Min(1, math.Max(0, chance+s.Noise*r.NormFloat64()))))
		}
	}
	return draft, confidences
}

// spreadOfChances is how far easy and hard places lie apart, in parts of what
// there is to both ends.
const spreadOfChances = 0.9

// chance is that of a position; where the drafter knows, places differ.
func (s *synthetic) chance(i int, ease float64) float64 {
	p := s.Acceptance[min(i, len(s.Acceptance)-1)]
	if s.Confident {
		p += spreadOfChances * (2*ease - 1) * min(p, 1-p)
	}
	return p
}
