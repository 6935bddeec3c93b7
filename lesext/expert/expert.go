// Package expert names experts and says where their bytes lie, in the model
// files and inside an expert slot. It owns no memory and reads nothing; a
// Geometry is built once, checked with Validate and then only read.
package expert

import (
	"fmt"
	"slices"
)

// Align is the alignment that file offsets, lengths and slot addresses of a
// direct read keep. 4096 covers every file system met so far; one that asks for
// more is read through the page cache instead.
const Align = 4096

// SpansMax is the most spans one expert may have: gate, up and down. The
// flags of a published word have one ready bit for each.
const SpansMax = 3

// ExpertsMax and LayersMax are far above any model and keep tables over all
// experts, and the time to check them, in bounds when a file lies.
const (
	ExpertsMax = 1 << 16
	LayersMax  = 1 << 12
)

// Key names one streamed expert. Layer counts the streamed expert layers from
// zero and is not the block number of the model.
type Key struct{ Layer, ID int32 }

func (k Key) String() string { return fmt.Sprintf("%d/%d", k.Layer, k.ID) }

// Span places one part of every expert of a layer:
//
//	file:  Off                 Off+Stride
//	       [expert 0: Bytes]   [expert 1: Bytes]   ...
//
//	slot:  SlotOff             (a multiple of Align)
//	       [pad][Bytes][pad]   pad before = file offset % Align
//
// so that a direct read of the widened range lands in place, with no copy.
type Span struct {
	File                        int
	Off, Stride, Bytes, SlotOff int64
}

// Extent returns where the span of expert id lies in its file.
func (s Span) Extent(id int32) Extent {
	return Extent{File: s.File, Off: s.Off + int64(id)*s.Stride, Bytes: s.Bytes}
}

// Layer describes one streamed expert layer. Block is its number in the model,
// Used is how many experts a token uses.
type Layer struct {
	Block, Experts, Used int
	Spans                []Span
}

// AllSpans returns the mask with the bit of every span of the layer set.
func (l Layer) AllSpans() uint32 { return 1<<len(l.Spans) - 1 }

// Extent is a range of bytes in one file.
type Extent struct {
	File       int
	Off, Bytes int64
}

// ReadRange returns the extent widened to Align at both ends, which is what a
// direct read asks for. The end of the range may lie behind the end of the file.
func (e Extent) ReadRange() Extent {
	lo := e.Off &^ (Align - 1)
	hi := (e.Off + e.Bytes + Align - 1) &^ (Align - 1)
	return Extent{File: e.File, Off: lo, Bytes: hi - lo}
}

// Run is a group of neighbouring spans that one read brings: they are adjacent
// in the file and in the slot, for every expert. Mask holds their ready bits;
// the embedded Span covers them all.
type Run struct {
	Span
	Mask uint32
}

// Geometry places all streamed experts of a model.
type Geometry struct {
	Files            []string
	Layers           []Layer
	Align, SlotBytes int64
}

// Extent returns where a span of an expert lies in its file.
func (g Geometry) Extent(k Key, span int) Extent {
	return g.Layers[k.Layer].Spans[span].Extent(k.ID)
}

// ReadRange returns Extent widened to Align at both ends.
func (g Geometry) ReadRange(k Key, span int) Extent {
	return g.Extent(k, span).ReadRange()
}

// Runs groups the spans of a layer into the fewest reads.
func (g Geometry) Runs(layer int) []Run {
	var runs []Run
	for i, s := range g.Layers[layer].Spans {
		bit := uint32(1) << i
		if n := len(runs); n > 0 && runs[n-1].adjoins(s) {
			runs[n-1].Bytes += s.Bytes
			runs[n-1].Mask |= bit
			continue
		}
		runs = append(runs, Run{Span: s, Mask: bit})
	}
	return runs
}

// adjoins reports whether next continues the run without a gap. Only a stride
// that is a multiple of Align gives every expert the same padding, without
// which spans that touch for one expert may lie a block apart for another.
func (r Run) adjoins(next Span) bool {
	inSlot := func(s Span) int64 { return s.SlotOff + s.Off%Align }
	return r.File == next.File && r.Stride == next.Stride && r.Stride%Align == 0 &&
		r.Off+r.Bytes == next.Off && inSlot(r.Span)+r.Bytes == inSlot(next)
}

// Index numbers the experts of all layers without gaps, so that tables over
// experts are plain slices.
type Index struct{ base []int32 }

// NewIndex returns the index of a valid geometry.
func NewIndex(g Geometry) Index {
	base := make([]int32, len(g.Layers)+1)
	for i, l := range g.Layers {
		base[i+1] = base[i] + int32(l.Experts)
	}
	return Index{base: base}
}

// Len returns the number of experts.
func (x Index) Len() int { return int(x.base[len(x.base)-1]) }

// Layers returns the number of layers.
func (x Index) Layers() int { return len(x.base) - 1 }

// Experts returns the number of experts of a layer.
func (x Index) Experts(layer int) int { return int(x.base[layer+1] - x.base[layer]) }

// Of returns the number of an expert. A key outside the geometry is a bug of
// the caller.
func (x Index) Of(k Key) int {
	i := x.base[k.Layer] + k.ID
	if k.ID < 0 || i >= x.base[k.Layer+1] {
		panic("expert: key outside the geometry: " + k.String())
	}
	return int(i)
}

// Key returns the expert with a number. It is the inverse of Of.
func (x Index) Key(i int) Key {
	layer, found := slices.BinarySearch(x.base, int32(i))
	if !found {
		layer--
	}
	return Key{Layer: int32(layer), ID: int32(i) - x.base[layer]}
}
