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
	// files than those just before them.
	turn int64
}

func newMeasurement(c Config, turn int64) *measurement {
	m := &measurement{config: c, turn: turn}
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

// sample reads with that many lanes for that long. Each part of the files is
// read at most once, for a second time it might come from a cache.
func (m *measurement) sample(ctx context.Context, size int64, depth int, forNS int64) (Sample, error) {
	c := m.config
	if c.Before != nil {
		if err := c.Before(); err != nil {
			return Sample{}, err
		}
	}
	order := newOrder(newBlocks(c.FileBytes, size), m.turn)
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
		over := s.err != nil || s.next >= min(order.n, readsMax) || !first && begin >= untilNS
		if err := ctx.Err(); err != nil && s.err == nil {
			s.err, over = err, true
		}
		want := order.at(s.next)
		if !over {
			s.next++
		}
		s.mu.Unlock()
		if over {
			return
		}
		err := m.config.Reader.ReadExtent(want, buf)
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

// blocks are the parts of files that a read of one size may bring, file by file.
type blocks struct {
	size int64
	each []int64 // of each file
}

func newBlocks(fileBytes []int64, size int64) blocks {
	b := blocks{size: size}
	for _, bytes := range fileBytes {
		b.each = append(b.each, bytes/size)
	}
	return b
}

func (b blocks) count() (n int64) {
	for _, each := range b.each {
		n += each
	}
	return n
}

// extent is where the i-th block is.
func (b blocks) extent(i int64) expert.Extent {
	file := 0
	for ; i >= b.each[file]; file++ {
		i -= b.each[file]
	}
	return expert.Extent{File: file, Off: i * b.size, Bytes: b.size}
}

// order is a permutation of blocks in which neighbours are far apart: the i-th is
// start + i*step, with a step that has no common divisor with the number of blocks
// and is about the golden section of it.
type order struct {
	blocks         blocks
	n, start, step int64
}

func newOrder(b blocks, turn int64) order {
	n := b.count()
	step := max(1, int64(float64(n)*0.618))
	for divisor(step, n) != 1 {
		step++
	}
	return order{blocks: b, n: n, start: turn % n * 7919 % n, step: step}
}

func (o order) at(i int64) expert.Extent { return o.blocks.extent((o.start + i%o.n*o.step) % o.n) }

// divisor is the greatest common divisor.
func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
