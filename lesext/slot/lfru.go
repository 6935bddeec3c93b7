package slot

import (
	"math"
	"math/bits"

	"github.com/les-project/les/lesext/expert"
)

const (
	// halfLifeSteps is the number of steps of a layer after which a use counts
	// half. In replays of a trained model 4 and 8 were equal; where popularity drifts
	// 4 does better and 8 falls below LRU. Longer ones are slow to follow, shorter
	// ones forget what is popular.
	halfLifeSteps = 4
	// octave is one factor of two of a score.
	octave = 1024
	// bucketWidth is what the present gains in one step. Steps are thus whole
	// buckets, and an expert used in every step keeps its distance to the
	// present exactly, whether its layer has run already in this token or not.
	bucketWidth = octave / halfLifeSteps
	// buckets of one layer: the word size of the bitmap of buckets in use.
	buckets = 64
	// headroom is the number of buckets above the present. An expert used in
	// every step lies log2(halfLifeSteps/ln 2) = 2.5 octaves, which is less than
	// 11 buckets, above one that is used for the first time.
	headroom = 11
	// sumReach is the difference of two scores beyond which the smaller one
	// adds less than one unit.
	sumReach = 11 * octave
	// sumGrain is the difference of scores that one entry of the table covers.
	sumGrain = 16
)

// LFRU evicts the least frequently used expert, where a use counts half after
// every half-life. Scores are kept as logarithms of counts that grow with time
// instead of shrinking, so that nothing has to be aged:
//
//	score = log2(sum over uses of 2^(step/halfLifeSteps))
//
// The time of a layer is the number of its own steps. What counts is how far a
// score lies below the present of its layer; counted that way, experts of layers
// that have yet to run in this token are not taken for stale. Among equals the
// layer that has run last loses, because it runs again latest: a pool smaller
// than the cycle of one token then keeps a part of the cycle instead of rolling
// through it.
type LFRU struct {
	lists
	layers []lfruLayer
	score  []int64
	sum    [sumReach / sumGrain]int16 // octave*log2(1+2^-(d/octave)) by difference d
}

// lfruLayer is the candidates of one layer, in a ring of lists. List b of the
// ring holds the bucket whose number is b modulo buckets.
type lfruLayer struct {
	used uint64 // bit b: list b may hold slots
	base int64  // number of the lowest bucket
}

// NewLFRU returns the policy for a pool of slots and the experts of all layers.
func NewLFRU(slots int, index expert.Index) *LFRU {
	layers, experts := index.Layers(), index.Len()
	p := &LFRU{lists: newLists(slots, layers*buckets), layers: make([]lfruLayer, layers), score: make([]int64, experts)}
	for i := range p.sum {
		d := (float64(i) + 0.5) * sumGrain / octave
		p.sum[i] = int16(math.Round(octave * math.Log2(1+math.Exp2(-d))))
	}
	for i := range p.score {
		p.score[i] = math.MinInt64 / 2
	}
	for i := range p.layers {
		p.layers[i].base = headroom - (buckets - 1)
	}
	return p
}

// Use implements Policy.
func (p *LFRU) Use(layer, key int, step int64) {
	now := step * bucketWidth
	old := p.score[key]
	larger, difference := max(now, old), max(now-old, old-now)
	if difference < sumReach {
		larger += int64(p.sum[difference/sumGrain])
	}
	p.score[key] = larger
	p.advance(layer, step+headroom-(buckets-1))
}

// Add implements Policy.
func (p *LFRU) Add(slot, layer, key int) {
	l := &p.layers[layer]
	bucket := min(max(p.score[key]/bucketWidth, l.base), l.base+buckets-1)
	b := ringPlace(bucket)
	p.pushFront(layer*buckets+b, int32(slot))
	l.used |= 1 << b
}

// Remove implements Policy.
func (p *LFRU) Remove(slot int) { p.remove(int32(slot)) }

// Victim implements Policy.
func (p *LFRU) Victim(layer int) int {
	best, victim := buckets, int32(-1)
	for range p.layers {
		if height, slot := p.lowest(layer, best); slot >= 0 {
			best, victim = height, slot
		}
		if layer--; layer < 0 {
			layer = len(p.layers) - 1
		}
	}
	return int(victim)
}

// lowest returns a slot of the lowest bucket in use of a layer, and how far that
// lies above the lowest one there is, if it is less than below.
func (p *LFRU) lowest(layer, below int) (height int, slot int32) {
	l := &p.layers[layer]
	rotation := ringPlace(l.base)
	for l.used != 0 {
		height := bits.TrailingZeros64(bits.RotateLeft64(l.used, -rotation))
		if height >= below {
			break
		}
		b := (height + rotation) % buckets
		if slot := p.first(layer*buckets + b); slot >= 0 {
			return height, slot
		}
		l.used &^= 1 << b
	}
	return 0, -1
}

// advance raises the lowest bucket; what lay below it moves up into it.
func (p *LFRU) advance(layer int, base int64) {
	l := &p.layers[layer]
	for ; l.base < base; l.base++ {
		from, to := ringPlace(l.base), ringPlace(l.base+1)
		if l.used&(1<<from) != 0 {
			p.splice(layer*buckets+from, layer*buckets+to)
			l.used = l.used&^(1<<from) | 1<<to
		}
	}
}

func ringPlace(bucket int64) int { return int(uint64(bucket) % buckets) }
