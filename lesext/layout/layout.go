// Package layout says where the bytes of a contiguous model lie: a file in
// which the gate, up and down matrices of one expert are one extent, and the
// extents of a layer follow each other in order, so that one read brings a
// whole expert. It owns no memory and reads nothing. Make lays out a model that
// is to be rewritten, Read finds the same in the metadata of one that was;
// offsets count from the start of the tensor data.
//
//	                 stride          stride          stride
//	|<------------->|<------------->|
//	[gate|up|down|  ][gate|up|down|  ] ... [       filler       ]
//	 expert 0         expert 1
//
// The file stays a GGUF: the tensors of a layer's experts are described one
// after the other, in order of use, and a filler takes up what the extents need
// beyond them. Only how the bytes inside of that region are shared out differs.
package layout

import (
	"errors"
	"fmt"
	"slices"

	"github.com/les-project/les/lesext/expert"
)

// Version is the layout that is written, and the only one that is read.
const Version = 1

// Suffix ends the names of expert tensors, so that a program that knows
// nothing of the layout misses them instead of reading garbage. The longest name
// that ParseName knows has room for it within what ggml reads.
const Suffix = ".les"

// matrixAlign is what the offset of a matrix inside its extent is a multiple
// of: what GGUF grants to tensors, and kernels may rely on.
const matrixAlign = 32

// ErrNoExperts is returned by Make for a model without routed experts.
var ErrNoExperts = errors.New("no routed experts")

// Tensor describes one tensor of a file. Slices is its third dimension, which
// counts experts where the name is one of theirs.
type Tensor struct {
	Name   string
	Bytes  int64
	Slices int64
	Off    int64 // for Read
}

// Part is the matrix of one role in every extent of a layer.
type Part struct {
	Tensor     int   // index of its tensor
	Off, Bytes int64 // inside the extent
}

// Layer is the experts of one kind in one block.
type Layer struct {
	Block, Experts int
	Kind           string
	Off, Stride    int64 // of expert 0, and from one to the next
	Parts          []Part
}

// Bytes is the size of the region that holds all extents.
func (l Layer) Bytes() int64 { return int64(l.Experts) * l.Stride }

// used is where the last matrix of an extent ends.
func (l Layer) used() int64 {
	last := l.Parts[len(l.Parts)-1]
	return last.Off + last.Bytes
}

// Place is one tensor of the new file.
type Place struct {
	Name   string
	Tensor int   // index in the original file, -1 for a filler
	Bytes  int64 // without the padding behind it
	Off    int64
	Layer  int // index of the layer whose experts it has, -1 for everything else
}

// Layout is a model laid out anew.
type Layout struct {
	Layers []Layer // their parts count tensors as the original file does
	Places []Place // in the order of the new file
}

// Make lays out a model whose tensors are given in the order of its file. The
// new file begins with what is not of experts, so that it is read at one go,
// and ends with the experts, layer by layer. It has at least one filler, which
// no other program expects: even with kept names it is refused by the number of
// its tensors.
func Make(tensors []Tensor, keepNames bool) (*Layout, error) {
	layers, err := gather(tensors)
	if err != nil {
		return nil, err
	}
	if len(layers) == 0 {
		return nil, ErrNoExperts
	}
	l := &Layout{Layers: layers}
	ofExperts := make([]bool, len(tensors))
	for _, layer := range layers {
		for _, part := range layer.Parts {
			ofExperts[part.Tensor] = true
		}
	}
	off := int64(0)
	for i, tensor := range tensors {
		if !ofExperts[i] {
			off = l.add(Place{Name: tensor.Name, Tensor: i, Bytes: tensor.Bytes, Off: off, Layer: -1})
		}
	}
	for i := range layers {
		off = l.addLayer(tensors, i, off, keepNames)
	}
	return l, nil
}

// add appends a place and returns where the next one begins.
func (l *Layout) add(p Place) int64 {
	l.Places = append(l.Places, p)
	return p.Off + roundUp(p.Bytes, expert.Align)
}

// addLayer appends the tensors of a layer and its filler.
func (l *Layout) addLayer(tensors []Tensor, i int, off int64, keepNames bool) int64 {
	layer := &l.Layers[i]
	layer.Off = off
	for _, part := range layer.Parts {
		tensor := tensors[part.Tensor]
		name := tensor.Name
		if !keepNames {
			name += Suffix
		}
		off = l.add(Place{Name: name, Tensor: part.Tensor, Bytes: tensor.Bytes, Off: off, Layer: i})
	}
	missing := layer.Off + layer.Bytes() - off
	if i == len(l.Layers)-1 {
		missing = max(missing, expert.Align)
	}
	if missing > 0 {
		off = l.add(Place{Name: fillerName(*layer), Tensor: -1, Bytes: missing, Off: off, Layer: -1})
	}
	return off
}

// fillerName cannot be the name of anything that a model has.
func fillerName(l Layer) string { return fmt.Sprintf("blk.%d.ffn_%s.pad", l.Block, l.Kind) }

// gather finds the layers of routed experts, in order, and shares out their
// extents.
func gather(tensors []Tensor) ([]Layer, error) {
	var names []Name
	index := map[Name]int{}
	for i, tensor := range tensors {
		name, ok := ParseName(tensor.Name)
		if !ok || tensor.Slices < 2 {
			continue
		}
		if other, twice := index[name]; twice {
			return nil, fmt.Errorf("tensor %s is there twice, as number %d and %d", tensor.Name, other, i)
		}
		index[name] = i
		names = append(names, name)
	}
	slices.SortFunc(names, compare)
	var layers []Layer
	for _, name := range names {
		n := len(layers)
		if n == 0 || layers[n-1].Block != name.Block || layers[n-1].Kind != name.Kind {
			layers = append(layers, Layer{Block: name.Block, Kind: name.Kind})
			n++
		}
		if err := layers[n-1].add(tensors[index[name]], index[name]); err != nil {
			return nil, err
		}
	}
	return layers, nil
}

// add appends the matrices of one tensor to all extents of the layer.
func (l *Layer) add(tensor Tensor, index int) error {
	if l.Experts == 0 {
		l.Experts = int(tensor.Slices)
	}
	switch {
	case tensor.Slices > expert.ExpertsMax:
		return fmt.Errorf("tensor %s has %d experts, want at most %d", tensor.Name, tensor.Slices, expert.ExpertsMax)
	case int64(l.Experts) != tensor.Slices:
		return fmt.Errorf("tensor %s has %d experts, its layer has %d", tensor.Name, tensor.Slices, l.Experts)
	case tensor.Bytes <= 0 || tensor.Bytes%tensor.Slices != 0:
		return fmt.Errorf("tensor %s: %d bytes do not divide into %d experts", tensor.Name, tensor.Bytes, tensor.Slices)
	case len(l.Parts) == expert.SpansMax:
		return fmt.Errorf("tensor %s: more than %d expert tensors in one layer", tensor.Name, expert.SpansMax)
	}
	off := int64(0)
	if len(l.Parts) > 0 {
		off = roundUp(l.used(), matrixAlign)
	}
	l.Parts = append(l.Parts, Part{Tensor: index, Off: off, Bytes: tensor.Bytes / tensor.Slices})
	l.Stride = roundUp(l.used(), expert.Align)
	return nil
}

func roundUp(n, align int64) int64 { return (n + align - 1) / align * align }
