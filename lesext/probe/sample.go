package probe

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
)

// readsMax bounds the latencies that are kept of one sample. 64 KiB reads at 4
// GiB/s would fill it in two seconds; a sample ends when it is full.
const readsMax = 1 << 17

// measurement is a Measure under way.
type measurement struct {
	config  Config
	buffers [][]byte // one for each lane
	// turn moves on with every sample, so that samples read other parts of the
	// file than those just before them.
	turn int64
}

func newMeasurement(c Config) *measurement {
	m := &measurement{config: c}
	for range slices.Max(c.Depths) {
		m.buffers = append(m.buffers, alignedBuffer(slices.Max(c.Sizes)))
	}
	return m
}

// alignedBuffer returns memory that a direct read may write to, all of it
// touched: the first sample must not pay for the system's pages.
func alignedBuffer(bytes int64) []byte {
	b := make([]byte, bytes+expert.Align)
	skip := int64(-uintptr(unsafe.Pointer(&b[0])) % expert.Align)
	b = b[skip : skip+bytes]
	for i := 0; i < len(b); i += expert.Align {
		b[i] = 1
	}
	return b
}

// shared is what the lanes of one sample share.
type shared struct {
	mu        sync.Mutex
	next      int64 // reads handed out
	err       error // of the first read that failed
	latencies []int64
	endNS     int64 // when the last read ended
}

// sample reads with that many lanes for that long. Each part of the file is
// read at most once, for a second time it might come from a cache.
func (m *measurement) sample(ctx context.Context, size int64, depth int, forNS int64) (Sample, error) {
	c := m.config
	if c.Before != nil {
		if err := c.Before(); err != nil {
			return Sample{}, err
		}
	}
	order := newOrder(c.FileBytes/size, m.turn)
	m.turn++
	var s shared
	var wait sync.WaitGroup
	begin := c.Now()
	for lane := range depth {
		wait.Go(func() { m.lane(ctx, &s, order, m.buffers[lane][:size], begin+forNS) })
	}
	wait.Wait()
	if s.err != nil || len(s.latencies) == 0 {
		return Sample{}, s.err
	}
	slices.Sort(s.latencies)
	n := len(s.latencies)
	return Sample{
		ReadBytes: size, Depth: depth, Direct: c.Direct, Reads: n,
		BytesPerSecond:  float64(int64(n)*size) / float64(max(1, s.endNS-begin)) * 1e9,
		LatencyMedianNS: s.latencies[n/2], LatencyP95NS: s.latencies[n*95/100],
	}, nil
}

// lane reads until the time is over, at least once.
func (m *measurement) lane(ctx context.Context, s *shared, order order, buf []byte, untilNS int64) {
	for first := true; ; first = false {
		begin := m.config.Now()
		s.mu.Lock()
		over := s.err != nil || s.next >= min(order.blocks, readsMax) || !first && begin >= untilNS
		if err := ctx.Err(); err != nil && s.err == nil {
			s.err, over = err, true
		}
		block := order.at(s.next)
		if !over {
			s.next++
		}
		s.mu.Unlock()
		if over {
			return
		}
		size := int64(len(buf))
		err := m.config.Reader.ReadExtent(expert.Extent{Off: block * size, Bytes: size}, buf)
		end := m.config.Now()
		s.mu.Lock()
		if err != nil && s.err == nil {
			s.err = err
		}
		s.latencies = append(s.latencies, end-begin)
		s.endNS = max(s.endNS, end)
		s.mu.Unlock()
	}
}

// order is a permutation of the blocks of a file in which neighbours are far
// apart: block i is start + i*step, with a step that has no common divisor with
// the number of blocks and is about the golden section of it.
type order struct{ blocks, start, step int64 }

func newOrder(blocks, turn int64) order {
	step := max(1, int64(float64(blocks)*0.618))
	for divisor(step, blocks) != 1 {
		step++
	}
	return order{blocks: blocks, start: turn * 7919 % blocks, step: step}
}

func (o order) at(i int64) int64 { return (o.start + i%o.blocks*o.step) % o.blocks }

// divisor is the greatest common divisor.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
