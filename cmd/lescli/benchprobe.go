package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
)

// probeSettings say what is read to learn the bandwidth of the flash.
type probeSettings struct {
	Paths   []string // of the model's parts
	Bytes   int64    // a read: an expert
	Depths  []int    // reads in flight, one after the other
	Seconds float64  // for each depth
	Seed    uint64
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

// run reads extents of an expert's size at random places, as many at once as
// the depth says, and nothing beside it.
func (p probeSettings) run(log io.Writer) (best probeResult, err error) {
	logf := func(format string, args ...any) { fmt.Fprintf(log, format+"\n", args...) }
	files, err := readq.OpenFiles(p.Paths, readq.FilesOptions{Logf: logf})
	if err != nil {
		return best, err
	}
	defer files.Close()
	for i, size := range files.Sizes() {
		if size < p.Bytes {
			return best, fmt.Errorf("%s: has %d bytes, fewer than one expert", p.Paths[i], size)
		}
	}
	for _, depth := range p.Depths {
		speed, err := p.measure(files, depth)
		if err != nil {
			return best, err
		}
		if speed > best.BytesPerSecond {
			best = probeResult{speed, depth, files.Direct(0)}
		}
	}
	return best, nil
}

// measure reads for a while with one depth.
func (p probeSettings) measure(files *readq.Files, depth int) (float64, error) {
	var (
		wait  sync.WaitGroup
		total atomic.Int64
		fault atomic.Value
	)
	begin := time.Now()
	limit := time.Duration(p.Seconds * float64(time.Second))
	for lane := range depth {
		wait.Go(func() {
			buf := alignedBytes(p.Bytes + 2*expert.Align)
			random := rand.New(rand.NewPCG(p.Seed, uint64(depth<<8|lane)))
			for time.Since(begin) < limit {
				if err := p.read(files, random, buf); err != nil {
					fault.Store(err)
					return
				}
				total.Add(p.Bytes)
			}
		})
	}
	wait.Wait()
	if err, failed := fault.Load().(error); failed {
		return 0, err
	}
	return float64(total.Load()) / time.Since(begin).Seconds(), nil
}

// read reads one extent.
func (p probeSettings) read(files *readq.Files, random *rand.Rand, buf []byte) error {
	file := random.IntN(len(p.Paths))
	blocks := (files.Sizes()[file] - p.Bytes) / expert.Align
	want := expert.Extent{File: file, Off: random.Int64N(blocks+1) * expert.Align, Bytes: p.Bytes}
	return files.ReadExtent(want, buf[:want.ReadRange().Bytes])
}

// alignedBytes is memory that direct reads may go to.
func alignedBytes(n int64) []byte {
	buf := make([]byte, n+expert.Align)
	skip := (expert.Align - int64(uintptr(unsafe.Pointer(&buf[0]))%expert.Align)) % expert.Align
	return buf[skip : skip+n : skip+n]
}
