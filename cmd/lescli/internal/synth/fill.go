package synth

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/bits"

	"github.com/les-project/les/cgo/llama"
)

// random is the wyrand generator: one multiplication for 64 bits, so that
// writing is bound by the disk.
type random uint64

func (r *random) next() uint64 {
	*r += 0xa0761d6478bd642f
	hi, lo := bits.Mul64(uint64(*r), uint64(*r)^0xe7037ed1a0b428db)
	return hi ^ lo
}

// uniform is in (0, 1].
func (r *random) uniform() float64 { return float64(r.next()>>11+1) / (1 << 53) }

// normal is a sample of the standard normal distribution.
func (r *random) normal() float64 {
	return math.Sqrt(-2*math.Log(r.uniform())) * math.Cos(2*math.Pi*r.uniform())
}

// seedFor gives every piece of every tensor its own stream, so that the bytes
// do not depend on the order of writing.
func seedFor(seed uint64, name string, off int64) random {
	h := fnv.New64a()
	var head [16]byte
	binary.LittleEndian.PutUint64(head[:8], seed)
	binary.LittleEndian.PutUint64(head[8:], uint64(off))
	h.Write(head[:])
	h.Write([]byte(name))
	return random(h.Sum64())
}

// fill writes a piece of a tensor, a whole number of blocks, into buf.
func (t *tensor) fill(buf []byte, r *random) {
	if t.dtype == llama.F32 {
		t.fillFloats(buf, r)
		return
	}
	fillBits(buf, r)
	t.setScales(buf)
}

func (t *tensor) fillFloats(buf []byte, r *random) {
	for ; len(buf) > 0; buf = buf[4:] {
		value := 1.0
		switch t.content {
		case normal:
			value = t.std * r.normal()
		case negative:
			value = -math.Abs(t.std * r.normal())
		}
		binary.LittleEndian.PutUint32(buf, math.Float32bits(float32(value)))
	}
}

func fillBits(buf []byte, r *random) {
	for ; len(buf) >= 8; buf = buf[8:] {
		binary.LittleEndian.PutUint64(buf, r.next())
	}
	for i := range buf {
		buf[i] = byte(r.next())
	}
}

// Standard deviation of a block of random bits whose scale is 1, as the block
// layouts decode it.
const (
	spreadQ3K = 42.5
	spreadQ4K = 180
	spreadQ6K = 1370
	spreadQ80 = 73.9
	spreadMX4 = 5.85
	minsQ4K   = 7.5 // makes the mean of a Q4_K block 0
)

// setScales gives every block of random bits the scale that makes its values
// have the tensor's standard deviation.
func (t *tensor) setScales(buf []byte) {
	size := int(t.dtype.BlockBytes())
	for ; len(buf) > 0; buf = buf[size:] {
		switch t.dtype {
		case llama.Q3K:
			putHalf(buf[size-2:], t.std/spreadQ3K)
		case llama.Q4K:
			putHalf(buf, t.std/spreadQ4K)
			putHalf(buf[2:], minsQ4K*t.std/spreadQ4K)
		case llama.Q6K:
			putHalf(buf[size-2:], t.std/spreadQ6K)
		case llama.Q8_0:
			putHalf(buf, t.std/spreadQ80)
		case llama.MXFP4: // a power of two, as an exponent of which 128 is that of 1
			buf[0] = byte(128 + math.Round(math.Log2(t.std/spreadMX4)))
		default:
			panic("synth: no fill for type " + t.dtype.String())
		}
	}
}

// putHalf stores x, which must be positive and in reach of half precision
// (subnormals included), rounded down.
func putHalf(buf []byte, x float64) {
	word := math.Float32bits(float32(x))
	exponent := int(word>>23) - 127 + 15
	mantissa := word & 0x7fffff
	half := uint32(exponent)<<10 | mantissa>>13
	if exponent <= 0 {
		half = (mantissa | 0x800000) >> (14 - exponent)
	}
	binary.LittleEndian.PutUint16(buf, uint16(half))
}
