package layout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/les-project/les/lesext/expert"
)

// Keys of the metadata. The arrays of version 1:
//
//	tensors    names that the expert tensors had, layer by layer in order of use
//	offsets    of the matrix of expert 0, from the start of the tensor data
//	strides    from one expert to the next
//	fillers    names of the tensors that only take up room
//	checksums  CRC-32C of every extent, layer by layer
//	others     CRC-32C of every other tensor, in file order, fillers left out
//
// and what the original file was, so that it can be given back:
//
//	sha256     of the whole file, in hexadecimal digits
//	bytes      its size
//	order      where its tensors are in this file, by number
//	alignment  what it says in general.alignment, and at which place among its
//	alignment_key  keys it says so; both are missing where it says nothing
//	header     everything before its tensor data, only where ggml would write
//	           that differently
//	gaps       the bytes between its tensors, only where not all of them are zero
const (
	KeyVersion   = "les.layout.version"
	KeyTensors   = "les.layout.tensors"
	KeyOffsets   = "les.layout.offsets"
	KeyStrides   = "les.layout.strides"
	KeyFillers   = "les.layout.fillers"
	KeyChecksums = "les.layout.checksums"
	KeyOthers    = "les.layout.other_checksums"

	KeySHA256          = "les.original.sha256"
	KeyBytes           = "les.original.bytes"
	KeyOrder           = "les.original.tensors"
	KeyAlignment       = "les.original.alignment"
	KeyAlignmentNumber = "les.original.alignment_key"
	KeyHeader          = "les.original.header"
	KeyGaps            = "les.original.gaps"

	// KeyPrefix starts all of them and no key of anybody else.
	KeyPrefix = "les."
)

// Metadata is what Read asks of a file.
type Metadata interface {
	Ints(key string) ([]int64, bool)
	Strings(key string) ([]string, bool)
}

// Stored is the layout of a file that was rewritten.
type Stored struct {
	Layers    []Layer  // their parts count tensors as the file does
	Names     []string // that the tensors had, in file order; empty for fillers
	Order     []int    // where the tensors of the original are in this file
	Checksums []uint32 // of every extent, layer by layer
	Others    []uint32 // of every tensor that is of no layer, fillers left out
}

// Read returns the layout of a file, nil for one that was not rewritten. It
// lays the tensors out once more, and refuses metadata that say otherwise.
func Read(meta Metadata, tensors []Tensor) (*Stored, error) {
	version, ok := meta.Ints(KeyVersion)
	if !ok {
		if _, named := meta.Strings(KeyTensors); named {
			return nil, fmt.Errorf("%s is missing", KeyVersion)
		}
		return nil, nil
	}
	if len(version) != 1 || version[0] != Version {
		return nil, fmt.Errorf("%s is %v, only %d is known", KeyVersion, version, Version)
	}
	r := &reader{meta: meta, tensors: tensors}
	fillers, names := r.texts(KeyFillers), r.texts(KeyTensors)
	offsets, strides := r.numbers(KeyOffsets), r.numbers(KeyStrides)
	s := &Stored{Names: make([]string, len(tensors)), Checksums: r.checksums(KeyChecksums), Others: r.checksums(KeyOthers)}
	if r.err != nil {
		return nil, r.err
	}
	original := slices.Clone(tensors)
	for i, tensor := range tensors {
		name, renamed := strings.CutSuffix(tensor.Name, Suffix)
		switch {
		case slices.Contains(fillers, tensor.Name):
			original[i].Slices = 0
			continue
		case renamed && !slices.Contains(names, name):
			return nil, fmt.Errorf("tensor %s is not in %s", tensor.Name, KeyTensors)
		}
		s.Names[i], original[i].Name = name, name
	}
	var err error
	if s.Layers, err = gather(original); err != nil {
		return nil, err
	}
	if err := s.checkPlaces(original, names, offsets, strides); err != nil {
		return nil, err
	}
	if err := s.checkCounts(r.numbers(KeyOrder), r); err != nil {
		return nil, err
	}
	return s, nil
}

// reader remembers the first key that is not as it should be.
type reader struct {
	meta    Metadata
	tensors []Tensor
	err     error
}

func (r *reader) texts(key string) []string {
	texts, ok := r.meta.Strings(key)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("%s is missing", key)
	}
	return texts
}

func (r *reader) numbers(key string) []int64 {
	numbers, ok := r.meta.Ints(key)
	if !ok && r.err == nil {
		r.err = fmt.Errorf("%s is missing", key)
	}
	return numbers
}

func (r *reader) checksums(key string) []uint32 {
	var sums []uint32
	for _, sum := range r.numbers(key) {
		sums = append(sums, uint32(sum))
	}
	return sums
}

// checkPlaces compares what the metadata say of each expert tensor with where
// it must be, and finds the regions.
func (s *Stored) checkPlaces(tensors []Tensor, names []string, offsets, strides []int64) error {
	if len(offsets) != len(names) || len(strides) != len(names) {
		return fmt.Errorf("%d names, %d offsets and %d strides of expert tensors", len(names), len(offsets), len(strides))
	}
	n := 0
	for i := range s.Layers {
		layer := &s.Layers[i]
		first := layer.Parts[0].Tensor
		layer.Off = tensors[first].Off
		for j, part := range layer.Parts {
			name := tensors[part.Tensor].Name
			if n >= len(names) || names[n] != name || part.Tensor != first+j {
				return fmt.Errorf("tensor %s is not where %s has it", name, KeyTensors)
			}
			if offsets[n] != layer.Off+part.Off || strides[n] != layer.Stride {
				return fmt.Errorf("tensor %s: offset %d and stride %d in the metadata, want %d and %d",
					name, offsets[n], strides[n], layer.Off+part.Off, layer.Stride)
			}
			n++
		}
		if end := s.regionEnd(tensors, first+len(layer.Parts)-1); layer.Off%expert.Align != 0 || layer.Bytes() > end-layer.Off {
			return fmt.Errorf("tensor %s: %d bytes at offset %d have no room for %d experts of %d bytes",
				tensors[first].Name, end-layer.Off, layer.Off, layer.Experts, layer.Stride)
		}
	}
	if n != len(names) || n == 0 {
		return fmt.Errorf("%s has %d names, the file has %d such tensors", KeyTensors, len(names), n)
	}
	return nil
}

// regionEnd is the end of the tensor and of the filler behind it.
func (s *Stored) regionEnd(tensors []Tensor, last int) int64 {
	if last+1 < len(tensors) && s.Names[last+1] == "" {
		last++
	}
	return tensors[last].Off + roundUp(tensors[last].Bytes, expert.Align)
}

// checkCounts takes the order of the original and wants every tensor in it
// once, and a checksum for everything.
func (s *Stored) checkCounts(order []int64, r *reader) error {
	if r.err != nil {
		return r.err
	}
	experts, parts, tensors := 0, 0, 0
	for _, layer := range s.Layers {
		experts += layer.Experts
		parts += len(layer.Parts)
	}
	for _, name := range s.Names {
		if name != "" {
			tensors++
		}
	}
	if len(s.Checksums) != experts || len(s.Others) != tensors-parts {
		return fmt.Errorf("%d checksums of %d experts, %d of %d other tensors", len(s.Checksums), experts, len(s.Others), tensors-parts)
	}
	seen := make([]bool, len(s.Names))
	for _, i := range order {
		if i < 0 || i >= int64(len(seen)) || seen[i] || s.Names[i] == "" {
			return fmt.Errorf("%s has tensor %d, which is none or is there twice", KeyOrder, i)
		}
		seen[i] = true
		s.Order = append(s.Order, int(i))
	}
	if len(order) != tensors {
		return fmt.Errorf("%s has %d tensors, the file has %d", KeyOrder, len(order), tensors)
	}
	return nil
}
