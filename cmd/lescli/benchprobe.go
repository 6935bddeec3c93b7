package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/probe"
	"github.com/les-project/les/lesext/readq"
)

// probeSettings say what is read to learn the bandwidth of the flash.
type probeSettings struct {
	Paths   []string // of the model's parts
	Bytes   int64    // a read: see probeBytes
	Depths  []int    // reads in flight, one after the other
	Seconds float64  // for each depth
	Turn    int64    // the round
}

// probeResult is the best of the depths.
type probeResult struct {
	BytesPerSecond float64
	Depth          int
	Direct         bool
}

// probeDepths are where virtual and real disks were fastest with reads of an
// expert's size.
var probeDepths = []int{4, 8}

// probeSeconds is long against a read, short against a sample.
const probeSeconds = 0.5

// probeBytes is the size of the reads for experts of that size.
func probeBytes(expertBytes int64) int64 {
	blocks := (expertBytes + expert.Align - 1) / expert.Align
	return min(max(1, blocks)*expert.Align, probe.ReadBytesMax)
}

// run measures, with nothing beside it.
func (p probeSettings) run(ctx context.Context, log io.Writer) (best probeResult, err error) {
	logf := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	files, err := readq.OpenFiles(p.Paths, readq.FilesOptions{Logf: logf})
	if err != nil {
		return best, err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	begin := time.Now()
	samples, err := probe.Measure(ctx, probe.Config{
		Reader: files, FileBytes: files.Sizes(), Sizes: []int64{p.Bytes}, Depths: p.Depths, Turn: p.Turn,
		BudgetNS: int64(p.Seconds * float64(len(p.Depths)) * float64(time.Second)),
		Now:      func() int64 { return int64(time.Since(begin)) },
	})
	for _, s := range samples {
		if s.BytesPerSecond > best.BytesPerSecond {
			best = probeResult{s.BytesPerSecond, s.Depth, files.Direct(0)}
		}
	}
	return best, err
}
