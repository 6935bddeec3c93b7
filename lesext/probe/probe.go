// Package probe measures how fast files can be read: bandwidth and latency for
// several read sizes and numbers of reads in flight. It reads through the reader
// the engine reads with, so that what it measures is what the engine gets. The
// clock is an input; memory is taken by Measure and given back when it returns.
package probe

import (
	"context"
	"errors"
	"fmt"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
)

// FileBytesMin is the smallest file that is worth measuring with the default
// sizes and depths: the largest read fits eight times, once for each lane.
const FileBytesMin = 32 << 20

// limits of a Config: DepthMax bounds goroutines, ReadBytesMax the buffers.
const (
	DepthMax     = 64
	ReadBytesMax = 16 << 20
)

// DefaultSizes are the read sizes that matter: small reads, for which latency
// decides; an expert of a model with many small ones; one of the 35B-A3B shape;
// and reads that are limited by bandwidth alone.
func DefaultSizes() []int64 { return []int64{64 << 10, 256 << 10, 440 << 10, 1332 << 10, 4 << 20} }

// DefaultDepths are the numbers of reads in flight that matter.
func DefaultDepths() []int { return []int{1, 2, 4, 8} }

// Config says what to measure.
type Config struct {
	// Reader reads the files, which have so many bytes each.
	Reader    readq.Reader
	FileBytes []int64
	// Turn has samples read other parts of the files than those with another turn.
	Turn int64
	// Direct is written into the samples.
	Direct bool
	// Sizes are multiples of expert.Align; empty means DefaultSizes. Depths are
	// numbers of reads in flight; empty means DefaultDepths.
	Sizes  []int64
	Depths []int
	// BudgetNS is the time for all samples. Reads in flight at its end are
	// waited for; samples that it does not reach are left out.
	BudgetNS int64
	// Now returns the time in nanoseconds. Several lanes call it at once.
	Now func() int64
	// Before, if set, runs before each sample, such as to drop the page cache.
	Before func() error
	// Progress, if set, is told of each sample when it is done.
	Progress func(done, all int, s Sample)
}

// Sample is the result for one read size and one number of reads in flight.
type Sample struct {
	ReadBytes       int64   `json:"read_bytes"`
	Depth           int     `json:"depth"`
	Direct          bool    `json:"direct"`
	Reads           int     `json:"reads"`
	BytesPerSecond  float64 `json:"bytes_per_second"`
	LatencyMedianNS int64   `json:"latency_median_ns"`
	LatencyP95NS    int64   `json:"latency_p95_ns"`
}

// Validate reports all problems of the configuration at once.
func (c Config) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("probe: "+format, args...))
		}
	}
	check(c.Reader != nil, "no reader")
	check(c.Now != nil, "no clock")
	check(c.BudgetNS > 0, "a budget of %d ns", c.BudgetNS)
	for _, size := range c.Sizes {
		check(size > 0 && size <= ReadBytesMax && size%expert.Align == 0, "reads of %d bytes, want a multiple of %d up to %d", size, int64(expert.Align), int64(ReadBytesMax))
		check(size <= 0 || newBlocks(c.FileBytes, size).count() > 0, "files of %d bytes have no room for a read of %d", c.FileBytes, size)
	}
	for _, depth := range c.Depths {
		check(depth >= 1 && depth <= DepthMax, "%d reads in flight, want 1 to %d", depth, DepthMax)
	}
	return errors.Join(errs...)
}

// Measure takes a sample for each size and depth, in this order. It returns the
// samples there are when the budget ends, the context does or a read fails.
func Measure(ctx context.Context, c Config) ([]Sample, error) {
	if len(c.Sizes) == 0 {
		c.Sizes = DefaultSizes()
	}
	if len(c.Depths) == 0 {
		c.Depths = DefaultDepths()
	}
	if err := c.Validate(); err != nil {
		return nil, err
	}
	begin := c.Now()
	all := len(c.Sizes) * len(c.Depths)
	m := newMeasurement(c, c.Turn*int64(all))
	var samples []Sample
	for _, size := range c.Sizes {
		for _, depth := range c.Depths {
			left := begin + c.BudgetNS - c.Now()
			if left <= 0 {
				return samples, ctx.Err()
			}
			s, err := m.sample(ctx, size, depth, left/int64(all-len(samples)))
			if err != nil {
				return samples, err
			}
			samples = append(samples, s)
			if c.Progress != nil {
				c.Progress(len(samples), all, s)
			}
		}
	}
	return samples, nil
}
