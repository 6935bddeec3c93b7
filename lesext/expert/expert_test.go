package expert_test

import (
	"math"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/expert"
)

// split is a small valid geometry: three separate spans, nothing aligned.
func split() expert.Geometry {
	l := expert.Layer{Block: 1, Experts: 8, Used: 2}
	for i := range int64(3) {
		l.Spans = append(l.Spans, expert.Span{Off: 100 + i*80000, Stride: 10000, Bytes: 10000, SlotOff: i * 4 * expert.Align})
	}
	return expert.Geometry{Files: []string{"m"}, Layers: []expert.Layer{l}, Align: expert.Align, SlotBytes: 12 * expert.Align}
}

// joined has gate, up and down one after the other, in file and slot.
func joined(stride int64) expert.Geometry {
	l := expert.Layer{Experts: 4, Used: 1}
	const bytes = 2 * expert.Align
	for i := range int64(3) {
		l.Spans = append(l.Spans, expert.Span{Off: 4096 + i*bytes, Stride: stride, Bytes: bytes, SlotOff: i * bytes})
	}
	return expert.Geometry{Files: []string{"m"}, Layers: []expert.Layer{l}, Align: expert.Align, SlotBytes: 4 * bytes}
}

func TestValidGeometriesPass(t *testing.T) {
	for _, g := range []expert.Geometry{split(), joined(6 * expert.Align)} {
		if err := g.Validate(); err != nil {
			t.Error(err)
		}
	}
}

func TestValidateReportsAllProblems(t *testing.T) {
	g := split()
	g.Align = 512
	g.Layers[0].Used = 9
	g.Layers[0].Spans[0].File = 1
	g.Layers[0].Spans[1].Bytes = 0
	g.Layers[0].Spans[2].SlotOff = 5
	g.Layers = append(g.Layers, expert.Layer{})
	err := g.Validate()
	wants := []string{
		"alignment is 512", "9 of 8 experts used", "layer 0 span 0: file 1 of 1", "layer 0 span 1: 0 bytes",
		"layer 0 span 2: slot offset 5", "layer 1: 0 experts, want 1 to", "layer 1: 0 spans",
	}
	for _, want := range wants {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("problem %q is not reported: %v", want, err)
		}
	}
}

func TestValidateFindsWhatDoesNotFit(t *testing.T) {
	cases := []struct {
		name, want string
		change     func(g *expert.Geometry)
	}{
		{"slot too small", "a read ends at byte", func(g *expert.Geometry) { g.SlotBytes -= expert.Align }},
		{"spans overlap", "spans overlap", func(g *expert.Geometry) { g.Layers[0].Spans[1].SlotOff -= expert.Align }},
		{"stride overflows", "offsets overflow", func(g *expert.Geometry) { g.Layers[0].Spans[0].Stride = math.MaxInt64 / 4 }},
		{"offset overflows", "offsets overflow", func(g *expert.Geometry) { g.Layers[0].Spans[0].Off = math.MaxInt64 - 5000 }},
		{"bytes overflow", "offsets overflow", func(g *expert.Geometry) { g.Layers[0].Spans[0].Bytes = math.MaxInt64 }},
		{"experts overlap", "is less than", func(g *expert.Geometry) { g.Layers[0].Spans[0].Stride = 9999 }},
		{"too many experts", "2147483647 experts, want 1 to 65536", func(g *expert.Geometry) { g.Layers[0].Experts = math.MaxInt32 }},
	}
	for _, c := range cases {
		g := split()
		c.change(&g)
		if err := g.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCutOffFileIsReported(t *testing.T) {
	g := split()
	const end = 100 + 3*80000
	if err := g.CheckSizes([]int64{end}); err != nil {
		t.Error(err)
	}
	err := g.CheckSizes([]int64{end - 1})
	if err == nil || !strings.Contains(err.Error(), "m is cut off: experts reach to byte 240100, the file has 240099 bytes") {
		t.Errorf("error is %v", err)
	}
}

func TestReadRangeCoversExtent(t *testing.T) {
	g := split()
	for id := range int32(8) {
		for span := range 3 {
			k := expert.Key{ID: id}
			e, r := g.Extent(k, span), g.ReadRange(k, span)
			if e.Off != 100+int64(span)*80000+int64(id)*10000 || e.Bytes != 10000 {
				t.Fatalf("extent of %v span %d is %+v", k, span, e)
			}
			aligned := r.Off%expert.Align == 0 && r.Bytes%expert.Align == 0
			if !aligned || r.Off > e.Off || r.Off+r.Bytes < e.Off+e.Bytes || r.Bytes >= e.Bytes+2*expert.Align {
				t.Errorf("read range of %+v is %+v", e, r)
			}
		}
	}
}

func TestAdjacentSpansAreOneRun(t *testing.T) {
	apart := joined(6 * expert.Align)
	apart.Layers[0].Spans[2].SlotOff += expert.Align
	cases := []struct {
		name  string
		g     expert.Geometry
		masks []uint32
	}{
		{"adjacent in file and slot", joined(6 * expert.Align), []uint32{7}},
		{"apart in the slot", apart, []uint32{3, 4}},
		{"padding differs by expert", joined(6*expert.Align + 32), []uint32{1, 2, 4}},
		{"apart in the file", split(), []uint32{1, 2, 4}},
	}
	for _, c := range cases {
		runs := c.g.Runs(0)
		var bytes int64
		var masks []uint32
		for _, r := range runs {
			masks = append(masks, r.Mask)
			bytes += r.Bytes
		}
		if len(masks) != len(c.masks) || bytes != 3*c.g.Layers[0].Spans[0].Bytes {
			t.Errorf("%s: masks %v of %d bytes, want %v", c.name, masks, bytes, c.masks)
			continue
		}
		for i := range masks {
			if masks[i] != c.masks[i] {
				t.Errorf("%s: masks %v, want %v", c.name, masks, c.masks)
			}
		}
	}
}

func TestIndexNumbersWithoutGaps(t *testing.T) {
	g := expert.Geometry{Layers: []expert.Layer{{Experts: 3}, {Experts: 1}, {Experts: 5}}}
	x := expert.NewIndex(g)
	n := 0
	for layer, l := range g.Layers {
		for id := range int32(l.Experts) {
			k := expert.Key{Layer: int32(layer), ID: id}
			if x.Of(k) != n || x.Key(n) != k {
				t.Errorf("%v has number %d, number %d is %v", k, x.Of(k), n, x.Key(n))
			}
			n++
		}
	}
	if x.Len() != n || x.Layers() != 3 || x.Experts(2) != 5 {
		t.Errorf("%d experts in %d layers, %d in the last", x.Len(), x.Layers(), x.Experts(2))
	}
	defer func() {
		if recover() == nil {
			t.Error("a key outside the geometry has a number")
		}
	}()
	x.Of(expert.Key{Layer: 0, ID: 3})
}
