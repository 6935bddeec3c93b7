package trace

import (
	"errors"
	"fmt"

	"github.com/les-project/les/lesext/expert"
)

// Header says what the sets of a recording are of.
type Header struct {
	Model  string // for people; a recording does not need the model
	Layers []Layer
}

// Layer is the shape of one streamed layer.
type Layer struct {
	Block   int     // its number in the model
	Experts int     // experts it has
	Used    int     // experts a token uses
	Reads   []int64 // bytes of each read that brings an expert
}

// Bytes is the size of an expert.
func (l Layer) Bytes() (sum int64) {
	for _, bytes := range l.Reads {
		sum += bytes
	}
	return sum
}

// modelNameMax bounds the name in a header.
const modelNameMax = 4096

// readBytesMax is far above any expert and keeps sums of sizes in range.
const readBytesMax = 1 << 40

// HeaderOf describes a model that is streamed.
func HeaderOf(model string, g expert.Geometry) Header {
	h := Header{Model: model[:min(len(model), modelNameMax)]}
	for i, layer := range g.Layers {
		l := Layer{Block: layer.Block, Experts: layer.Experts, Used: layer.Used}
		for _, run := range g.Runs(i) {
			l.Reads = append(l.Reads, run.Bytes)
		}
		h.Layers = append(h.Layers, l)
	}
	return h
}

// Experts is the number of experts of all layers.
func (h Header) Experts() (sum int) {
	for _, layer := range h.Layers {
		sum += layer.Experts
	}
	return sum
}

// Validate reports all problems of the header at once.
func (h Header) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("trace: "+format, args...))
		}
	}
	check(len(h.Model) <= modelNameMax, "a model name of %d bytes", len(h.Model))
	check(len(h.Layers) > 0 && len(h.Layers) <= expert.LayersMax, "%d layers, want 1 to %d", len(h.Layers), expert.LayersMax)
	for i, l := range h.Layers {
		check(l.Block >= 0, "layer %d: block %d is negative", i, l.Block)
		check(l.Experts > 0 && l.Experts <= expert.ExpertsMax, "layer %d: %d experts, want 1 to %d", i, l.Experts, expert.ExpertsMax)
		check(l.Used > 0 && l.Used <= l.Experts, "layer %d: %d of %d experts used", i, l.Used, l.Experts)
		check(len(l.Reads) > 0 && len(l.Reads) <= expert.SpansMax, "layer %d: %d reads an expert, want 1 to %d", i, len(l.Reads), expert.SpansMax)
		for _, bytes := range l.Reads {
			check(bytes > 0 && bytes <= readBytesMax, "layer %d: a read of %d bytes", i, bytes)
		}
	}
	return errors.Join(errs...)
}

// checkSet reports whether a set can be of this model. Marks is by expert, holds
// the last stamp an expert was seen with, and finds what is there twice.
func (h Header) checkSet(s Set, marks []int64, stamp int64) error {
	if s.Layer < 0 || s.Layer >= len(h.Layers) {
		return fmt.Errorf("layer %d of %d", s.Layer, len(h.Layers))
	}
	experts := h.Layers[s.Layer].Experts
	if len(s.IDs) == 0 || len(s.IDs) > experts {
		return fmt.Errorf("layer %d: %d of %d experts", s.Layer, len(s.IDs), experts)
	}
	if s.Guessed != (s.Tokens == 0) || s.Tokens < 0 {
		return fmt.Errorf("layer %d: a set of %d tokens, guessed is %t", s.Layer, s.Tokens, s.Guessed)
	}
	for _, id := range s.IDs {
		if id < 0 || int(id) >= experts {
			return fmt.Errorf("layer %d: expert %d of %d", s.Layer, id, experts)
		}
		if marks[id] == stamp {
			return fmt.Errorf("layer %d: expert %d is there twice", s.Layer, id)
		}
		marks[id] = stamp
	}
	return nil
}

// marksFor is the memory of checkSet.
func (h Header) marksFor() []int64 {
	most := 0
	for _, l := range h.Layers {
		most = max(most, l.Experts)
	}
	return make([]int64, most)
}
