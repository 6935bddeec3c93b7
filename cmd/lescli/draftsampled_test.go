package main

import (
	"bytes"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// TestSampledTokensKeepTheirDistribution compares, over many seeds, the tokens
// drawn after one prompt with and without drafts: chi-squared of two samples.
func TestSampledTokensKeepTheirDistribution(t *testing.T) {
	s := openTest(t, referenceModel, "")
	prompt, err := s.model.Tokenize("func (r *", true)
	if err != nil {
		t.Fatal(err)
	}
	text := plainText(t, s, prompt)
	counts := [2]map[string]float64{{}, {}}
	const draws, depth = 400, 3
	for side := range counts {
		for seed := range draws {
			s.drafting = nil
			if side == 1 {
				draftWith(t, s, &given{text: text, wrong: -1, most: 4}, depth)
			}
			params := llama.SamplerParams{Temperature: 1, TopK: 4, Seed: uint32(seed + side*draws + 1)}
			counts[side][firstTokens(t, s, prompt, params, depth)]++
		}
	}
	chi, cells := 0.0, 0
	for _, key := range keysOf(counts[0], counts[1]) {
		a, b := counts[0][key], counts[1][key]
		if a+b < 10 {
			continue
		}
		chi, cells = chi+(a-b)*(a-b)/(a+b), cells+1
	}
	// Mean and deviation of chi-squared are its cells and the root of twice these.
	if most := float64(cells) + 4*math.Sqrt(2*float64(cells)); cells < 5 || chi > most {
		t.Errorf("chi-squared %.1f over %d cells", chi, cells)
	}
}

func firstTokens(t *testing.T, s *session, prompt []llama.Token, params llama.SamplerParams, n int) string {
	t.Helper()
	s.lctx.Clear()
	var out bytes.Buffer
	g := &generation{session: s, out: &out, limit: n + 1, line: newProgressLine(io.Discard)}
	if err := g.run(t.Context(), prompt, params); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func keysOf(maps ...map[string]float64) (keys []string) {
	for _, m := range maps {
		for key := range m {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
