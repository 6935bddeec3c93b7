package slot

import (
	"math"
	"math/bits"
)

const (
	// halfLifeSteps is the number of steps after which a use counts half.
	halfLifeSteps = 64
	// octave is one factor of two of a score. Scores are logarithms in steps
	// of 1/octave, fine enough that one use out of a half-life of uses counts.
	octave = 1024
	// bucketWidth groups scores that differ by less than a quarter octave.
	// Experts used equally often thus share a bucket, although those of later
	// layers have yet to be used in the current step.
	bucketWidth = octave / 4
	// buckets is the word size of the bitmap of buckets in use.
	buckets = 64
	// headroom is the number of buckets above the present: an expert used in
	// every step has a score of log2(halfLifeSteps/ln 2) = 6.5 octaves, which
	// is 26 buckets, above that of one used only now.
	headroom = 28
	// sumReach is the difference of two scores beyond which the smaller one
	// adds less than one unit.
	sumReach = 11 * octave
	// sumGrain is the difference of scores that one entry of the table covers.
	sumGrain = 16
)

// lfru evicts the least frequently used expert, where a use counts half after
// every half-life. Scores are kept as logarithms of counts that grow with time
// instead of shrinking, so that nothing has to be aged:
//
//	score = log2(sum over uses of 2^(step/halfLifeSteps))
//
// Candidates lie in buckets of nearly equal score. In the lowest bucket the
// slot released last goes first: its layer is the one that runs again latest,
// and a pool smaller than the cycle of one token keeps a part of the cycle
// instead of rolling through it.
type lfru struct {
	lists
	used  uint64 // bit b: the list of bucket number base+i, at b = (base+i)%buckets, may hold slots
	base  int64  // number of the lowest bucket
	score []int64
	sum   [sumReach / sumGrain]int16 // octave*log2(1+2^-(d/octave)) by difference d
}

func newLFRU(slots, experts int) *lfru {
	p := &lfru{lists: newLists(slots, buckets), score: make([]int64, experts)}
	for i := range p.sum {
		d := (float64(i) + 0.5) * sumGrain / octave
		p.sum[i] = int16(math.Round(octave * math.Log2(1+math.Exp2(-d))))
	}
	for i := range p.score {
		p.score[i] = math.MinInt64 / 2
	}
	return p
}

func (p *lfru) Use(key int, step int64) {
	now := step * octave / halfLifeSteps
	old := p.score[key]
	larger, difference := max(now, old), max(now-old, old-now)
	if difference < sumReach {
		larger += int64(p.sum[difference/sumGrain])
	}
	p.score[key] = larger
	p.advance(now/bucketWidth + headroom - (buckets - 1))
}

func (p *lfru) Add(slot, key int) {
	bucket := min(max(p.score[key]/bucketWidth, p.base), p.base+buckets-1)
	list := int(uint64(bucket) % buckets)
	p.pushFront(list, int32(slot))
	p.used |= 1 << list
}

func (p *lfru) Remove(slot int) { p.remove(int32(slot)) }

func (p *lfru) Victim() int {
	rotation := int(uint64(p.base) % buckets)
	for p.used != 0 {
		lowest := bits.TrailingZeros64(bits.RotateLeft64(p.used, -rotation))
		list := (lowest + rotation) % buckets
		if slot := p.first(list); slot >= 0 {
			return int(slot)
		}
		p.used &^= 1 << list
	}
	return -1
}

// advance raises the lowest bucket; what lay below it moves up into it.
func (p *lfru) advance(base int64) {
	for ; p.base < base; p.base++ {
		from, to := int(uint64(p.base)%buckets), int(uint64(p.base+1)%buckets)
		if p.used&(1<<from) != 0 {
			p.splice(from, to)
			p.used = p.used&^(1<<from) | 1<<to
		}
	}
}
