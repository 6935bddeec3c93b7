package dspark

import "slices"

// Stats are counts of what was drafted.
type Stats struct {
	Steps    int64 // of the target
	Drafts   int64 // that gave at least one token
	Drafted  int64 // tokens
	Verified int64
	Accepted int64
	DraftNS  int64
	StepNS   int64
	Widths   []WidthStats // by drafted tokens in the step, from 0
	Bins     []BinStats   // by confidence, from 0 to 1
}

// WidthStats are of the steps that verified one number of tokens.
type WidthStats struct {
	Steps, Accepted, StepNS, Experts, ReadBytes int64
}

// BinStats compare confidences with what became of the tokens. Only tokens
// whose predecessors were all accepted count.
type BinStats struct {
	Tokens, Accepted int64
	Confidence       float64 // sum
}

func newStats(n int) Stats {
	return Stats{Widths: make([]WidthStats, n+1), Bins: make([]BinStats, confidenceBins)}
}

func (s Stats) clone() Stats {
	s.Widths, s.Bins = slices.Clone(s.Widths), slices.Clone(s.Bins)
	return s
}

// Plus adds the counts of another controller for drafts of as many tokens, or of
// none at all.
func (s Stats) Plus(t Stats) Stats {
	if len(s.Widths) == 0 {
		return t
	}
	sum := s.clone()
	sum.Steps, sum.Drafts, sum.Drafted = s.Steps+t.Steps, s.Drafts+t.Drafts, s.Drafted+t.Drafted
	sum.Verified, sum.Accepted = s.Verified+t.Verified, s.Accepted+t.Accepted
	sum.DraftNS, sum.StepNS = s.DraftNS+t.DraftNS, s.StepNS+t.StepNS
	for i, w := range t.Widths {
		sum.Widths[i].Steps += w.Steps
		sum.Widths[i].Accepted += w.Accepted
		sum.Widths[i].StepNS += w.StepNS
		sum.Widths[i].Experts += w.Experts
		sum.Widths[i].ReadBytes += w.ReadBytes
	}
	for i, b := range t.Bins {
		sum.Bins[i].Tokens += b.Tokens
		sum.Bins[i].Accepted += b.Accepted
		sum.Bins[i].Confidence += b.Confidence
	}
	return sum
}

func (s *Stats) add(step Step, confidences []float32) {
	s.Steps++
	if step.Drafted > 0 {
		s.Drafts++
	}
	s.Drafted += int64(step.Drafted)
	s.Verified += int64(step.Verified)
	s.Accepted += int64(step.Accepted)
	s.DraftNS += step.DraftNS
	s.StepNS += step.StepNS
	w := &s.Widths[step.Verified]
	w.Steps++
	w.Accepted += int64(step.Accepted)
	w.StepNS += step.StepNS
	w.Experts += step.Experts
	w.ReadBytes += step.ReadBytes
	for i := range min(step.Verified, step.Accepted+1, len(confidences)) {
		b := &s.Bins[bin(confidences[i])]
		b.Tokens++
		b.Confidence += float64(confidences[i])
		if i < step.Accepted {
			b.Accepted++
		}
	}
}
