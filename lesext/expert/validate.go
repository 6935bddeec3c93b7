package expert

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// Validate reports all problems of the geometry at once.
func (g Geometry) Validate() error {
	p := &problems{}
	p.check(g.Align == Align, "alignment is %d, want %d", g.Align, int64(Align))
	p.check(g.SlotBytes > 0 && g.SlotBytes%Align == 0, "slot of %d bytes is not a positive multiple of %d", g.SlotBytes, int64(Align))
	p.check(len(g.Files) > 0, "no files")
	p.check(len(g.Layers) > 0, "no layers")
	p.check(len(g.Layers) <= LayersMax, "%d layers, want at most %d", len(g.Layers), LayersMax)
	for i := range g.Layers {
		g.validateLayer(p, i)
	}
	return errors.Join(p.errs...)
}

// CheckSizes reports every file that ends inside an expert, given the sizes of
// the files in order. The geometry must be valid.
func (g Geometry) CheckSizes(sizes []int64) error {
	want := make([]int64, len(g.Files))
	for _, l := range g.Layers {
		for _, s := range l.Spans {
			last := s.Extent(int32(l.Experts - 1))
			want[s.File] = max(want[s.File], last.Off+last.Bytes)
		}
	}
	p := &problems{}
	for i, name := range g.Files {
		p.check(sizes[i] >= want[i], "%s is cut off: experts reach to byte %d, the file has %d bytes", name, want[i], sizes[i])
	}
	return errors.Join(p.errs...)
}

// problems collects what is wrong, so that one run tells everything.
type problems struct{ errs []error }

func (p *problems) check(ok bool, format string, args ...any) {
	if !ok {
		p.errs = append(p.errs, fmt.Errorf("expert: "+format, args...))
	}
}

func (g Geometry) validateLayer(p *problems, i int) {
	l := g.Layers[i]
	p.check(l.Block >= 0, "layer %d: block number %d is negative", i, l.Block)
	p.check(l.Experts > 0 && l.Experts <= ExpertsMax, "layer %d: %d experts, want 1 to %d", i, l.Experts, ExpertsMax)
	p.check(l.Used > 0 && l.Used <= l.Experts, "layer %d: %d of %d experts used", i, l.Used, l.Experts)
	p.check(len(l.Spans) > 0 && len(l.Spans) <= SpansMax, "layer %d: %d spans, want 1 to %d", i, len(l.Spans), SpansMax)
	before := len(p.errs)
	for j, s := range l.Spans {
		g.validateSpan(p, fmt.Sprintf("layer %d span %d", i, j), l.Experts, s)
	}
	if len(p.errs) == before && l.Experts <= ExpertsMax && g.SlotBytes > 0 {
		g.validatePlaces(p, i)
	}
}

func (g Geometry) validateSpan(p *problems, where string, experts int, s Span) {
	p.check(s.File >= 0 && s.File < len(g.Files), "%s: file %d of %d", where, s.File, len(g.Files))
	p.check(s.Off >= 0, "%s: offset %d is negative", where, s.Off)
	p.check(s.Bytes > 0, "%s: %d bytes", where, s.Bytes)
	p.check(s.SlotOff >= 0 && s.SlotOff%Align == 0, "%s: slot offset %d is not a multiple of %d", where, s.SlotOff, int64(Align))
	p.check(experts <= 1 || s.Stride >= s.Bytes, "%s: stride %d is less than %d bytes", where, s.Stride, s.Bytes)
	p.check(s.Stride >= 0 && s.fits(experts), "%s: offsets overflow", where)
}

// fits reports whether the end of the last expert, in the file and in the
// slot, is a number that can be rounded up to Align.
func (s Span) fits(experts int) bool {
	hi, lo := bits.Mul64(uint64(max(0, experts-1)), uint64(s.Stride))
	const room = math.MaxInt64 - 2*Align
	if hi != 0 || lo > room || s.Off < 0 || s.Bytes < 0 || s.SlotOff < 0 {
		return false
	}
	return s.Bytes <= room && s.Off <= room-s.Bytes && int64(lo) <= room-s.Bytes-s.Off && s.SlotOff <= room-s.Bytes
}

// validatePlaces checks, for every expert, that the read of each run stays
// inside the slot and off the bytes of the other runs.
func (g Geometry) validatePlaces(p *problems, layer int) {
	runs := g.Runs(layer)
	for id := range int32(g.Layers[layer].Experts) {
		for j, r := range runs {
			end := r.SlotOff + r.Extent(id).ReadRange().Bytes
			if end > g.SlotBytes {
				p.check(false, "layer %d expert %d: a read ends at byte %d of a slot of %d", layer, id, end, g.SlotBytes)
				return
			}
			for _, other := range runs[:j] {
				otherEnd := other.SlotOff + other.Extent(id).ReadRange().Bytes
				if r.SlotOff < otherEnd && other.SlotOff < end {
					p.check(false, "layer %d expert %d: spans overlap in the slot at byte %d", layer, id, max(r.SlotOff, other.SlotOff))
					return
				}
			}
		}
	}
}
