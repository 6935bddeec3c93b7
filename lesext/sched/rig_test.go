package sched_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/slot"
)

// splitGeometry has three separate spans for each expert, none of them aligned,
// as in an ordinary GGUF.
func splitGeometry(layers, experts, used int) expert.Geometry {
	const bytes, slotPart = 3000, 2 * expert.Align
	g := expert.Geometry{Files: []string{"model"}, Align: expert.Align, SlotBytes: 3 * slotPart}
	off := int64(32)
	for i := range layers {
		l := expert.Layer{Block: i + 1, Experts: experts, Used: used}
		for j := range int64(3) {
			l.Spans = append(l.Spans, expert.Span{Off: off, Stride: bytes, Bytes: bytes, SlotOff: j * slotPart})
			off += int64(experts) * bytes
		}
		g.Layers = append(g.Layers, l)
	}
	return g
}

// contiguousGeometry has one aligned extent for each expert.
func contiguousGeometry(layers, experts, used int) expert.Geometry {
	g := expert.Geometry{Files: []string{"model"}, Align: expert.Align, SlotBytes: expert.Align}
	for i := range layers {
		span := expert.Span{Off: int64(i*experts) * expert.Align, Stride: expert.Align, Bytes: expert.Align}
		g.Layers = append(g.Layers, expert.Layer{Block: i, Experts: experts, Used: used, Spans: []expert.Span{span}})
	}
	return g
}

// pattern is the content of the synthetic model file.
func pattern(off int64) byte { return byte(off*131 + off>>8*29 + off>>16*197) }

// stubReader serves the pattern. What it does before that is up to the hook.
type stubReader struct {
	geometry expert.Geometry
	before   func(want expert.Extent) error // called by the lanes at once

	mu     sync.Mutex
	reads  map[expert.Extent]int // all reads, by extent
	active map[expert.Extent]bool
	twice  bool // two reads of the same extent were in flight at once
	order  []expert.Extent
}

func newStubReader(g expert.Geometry) *stubReader {
	return &stubReader{geometry: g, reads: map[expert.Extent]int{}, active: map[expert.Extent]bool{}}
}

func (r *stubReader) ReadExtent(want expert.Extent, buf []byte) error {
	r.mu.Lock()
	r.twice = r.twice || r.active[want]
	r.active[want] = true
	r.reads[want]++
	r.order = append(r.order, want)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.active, want)
		r.mu.Unlock()
	}()
	if r.before != nil {
		if err := r.before(want); err != nil {
			return err
		}
	}
	if int64(len(buf)) != want.ReadRange().Bytes {
		return fmt.Errorf("buffer of %d bytes for %+v", len(buf), want)
	}
	base := want.ReadRange().Off
	for i := range buf {
		buf[i] = pattern(base + int64(i))
	}
	return nil
}

func (r *stubReader) started() []expert.Extent {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]expert.Extent(nil), r.order...)
}

// board is the shared table of words, with a way to wait for a change.
type board struct {
	index   expert.Index
	words   []atomic.Uint32
	mu      sync.Mutex
	changed *sync.Cond
}

func newBoard(g expert.Geometry) *board {
	index := expert.NewIndex(g)
	b := &board{index: index, words: make([]atomic.Uint32, index.Len())}
	b.changed = sync.NewCond(&b.mu)
	return b
}

func (b *board) Publish(layer, id int, word uint32) {
	b.words[b.index.Of(expert.Key{Layer: int32(layer), ID: int32(id)})].Store(word)
	b.mu.Lock()
	b.changed.Broadcast()
	b.mu.Unlock()
}

func (b *board) word(layer int, id int32) uint32 {
	return b.words[b.index.Of(expert.Key{Layer: int32(layer), ID: id})].Load()
}

// waitAny waits until one of the experts is ready or failed, and returns it.
func (b *board) waitAny(layer int, ids []int32, spans uint32) (at int, word uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for i, id := range ids {
			if w := b.word(layer, id); w&spans == spans || w&slot.FlagFailed != 0 {
				return i, w
			}
		}
		b.changed.Wait()
	}
}

// policyOf returns the named policy for a scheduler of this size.
func policyOf(t testing.TB, name string, g expert.Geometry, slots int) slot.Policy {
	t.Helper()
	policy, err := sim.NewPolicy(name, slots, expert.NewIndex(g), nil)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// rig is a scheduler on synthetic parts.
type rig struct {
	*sched.Scheduler
	config sched.Config
	reader *stubReader
	board  *board
}

func newRig(t testing.TB, config sched.Config) *rig {
	t.Helper()
	return newRigFor(config, config.Slots)
}

// newRigFor has memory for more slots than there are at first.
func newRigFor(config sched.Config, capacity int) *rig {
	r := &rig{reader: newStubReader(config.Geometry), board: newBoard(config.Geometry)}
	config.Arena = alignedBytes(int64(capacity) * config.Geometry.SlotBytes)
	config.Reader, config.Publisher = r.reader, r.board
	r.config = config
	return r
}

func (r *rig) open(t testing.TB) *rig {
	t.Helper()
	var err error
	if r.Scheduler, err = sched.Open(r.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func alignedBytes(n int64) []byte {
	b := make([]byte, n+expert.Align)
	skip := int64(-uintptr(unsafe.Pointer(&b[0])) % expert.Align)
	return b[skip : skip+n : skip+n]
}

// check compares all needed bytes of a ready expert with the file.
func (r *rig) check(layer int, id int32, spans, word uint32) error {
	slotBytes := r.config.Arena[int64(word>>8-1)*r.config.Geometry.SlotBytes:]
	for i, s := range r.config.Geometry.Layers[layer].Spans {
		if spans>>i&1 == 0 {
			continue
		}
		e := s.Extent(id)
		for j := range e.Bytes {
			if got := slotBytes[s.SlotOff+e.Off%expert.Align+j]; got != pattern(e.Off+j) {
				return fmt.Errorf("expert %d/%d span %d byte %d is %#x, want %#x", layer, id, i, j, got, pattern(e.Off+j))
			}
		}
	}
	return nil
}

// apply does what a compute context does with a routed layer: it takes the
// experts in the order in which they become ready, checks and releases them.
func (r *rig) apply(layer int, ids []int32, spans uint32) (failed int, err error) {
	left := append([]int32(nil), ids...)
	for len(left) > 0 {
		at, word := r.board.waitAny(layer, left, spans)
		if word&slot.FlagFailed != 0 {
			failed++
		} else if bad := r.check(layer, left[at], spans, word); bad != nil {
			err = errors.Join(err, bad)
		}
		r.Released(layer, left[at:at+1])
		left = append(left[:at], left[at+1:]...)
	}
	return failed, err
}

// step routes and applies one layer.
func (r *rig) step(t testing.TB, layer int, ids ...int32) {
	t.Helper()
	r.Routed(layer, ids, ^uint32(0), 1)
	all := r.config.Geometry.Layers[layer].AllSpans()
	if _, err := r.apply(layer, ids, all); err != nil {
		t.Fatal(err)
	}
}

// settle waits, in a synctest bubble, until all reads that are not held are done.
func settle() { time.Sleep(time.Hour) }

// sums fails the test unless the counts add up.
func (r *rig) sums(t testing.TB) sched.Stats {
	t.Helper()
	s := r.Stats()
	if s.Hits+s.Joins+s.Misses != s.Lookups {
		t.Errorf("%d hits + %d joins + %d misses are not %d lookups", s.Hits, s.Joins, s.Misses, s.Lookups)
	}
	if s.Useful+s.Wasted+s.Pending != s.PrefetchIssued {
		t.Errorf("%d useful + %d wasted + %d pending are not %d issued", s.Useful, s.Wasted, s.Pending, s.PrefetchIssued)
	}
	if s.PrefetchIssued+s.Promoted+s.Cancelled > s.PrefetchQueued {
		t.Errorf("%d issued + %d promoted + %d cancelled are more than %d queued", s.PrefetchIssued, s.Promoted, s.Cancelled, s.PrefetchQueued)
	}
	return s
}

func (r *rig) extent(layer int, id int32, span int) expert.Extent {
	return r.config.Geometry.Extent(expert.Key{Layer: int32(layer), ID: id}, span)
}

func newChance(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// slowAndBroken holds reads back at random and fails one of five.
func slowAndBroken(seed uint64) func(expert.Extent) error {
	var mu sync.Mutex
	chance := newChance(seed)
	return func(expert.Extent) error {
		mu.Lock()
		n := chance.IntN(100)
		mu.Unlock()
		switch {
		case n < 30:
			time.Sleep(time.Duration(n) * 10 * time.Microsecond)
		case n >= 80:
			return syscall.EIO
		}
		return nil
	}
}
