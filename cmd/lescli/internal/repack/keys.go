package repack

import (
	"errors"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/layout"
)

// setLayoutKeys says where the experts are.
func setLayoutKeys(w *llama.Writer, lay *layout.Layout, tensors []tensor) error {
	var names, fillers []string
	var offsets, strides []uint64
	for _, layer := range lay.Layers {
		for _, part := range layer.Parts {
			names = append(names, tensors[part.Tensor].Name)
			offsets = append(offsets, uint64(layer.Off+part.Off))
			strides = append(strides, uint64(layer.Stride))
		}
	}
	for _, place := range lay.Places {
		if place.Tensor < 0 {
			fillers = append(fillers, place.Name)
		}
	}
	return errors.Join(
		w.SetUint32(layout.KeyVersion, layout.Version),
		w.SetStrings(layout.KeyTensors, names),
		w.SetUint64s(layout.KeyOffsets, offsets),
		w.SetUint64s(layout.KeyStrides, strides),
		w.SetStrings(layout.KeyFillers, fillers))
}

// setOriginalKeys says what is needed to give the original back.
func setOriginalKeys(w *llama.Writer, lay *layout.Layout, o *original) error {
	order := make([]uint32, len(o.tensors))
	for i, place := range lay.Places {
		if place.Tensor >= 0 {
			order[place.Tensor] = uint32(i)
		}
	}
	err := errors.Join(w.SetUint64(layout.KeyBytes, uint64(o.bytes)), w.SetUint32s(layout.KeyOrder, order))
	if o.alignmentKey >= 0 {
		err = errors.Join(err, w.SetUint32(layout.KeyAlignment, uint32(o.alignment)),
			w.SetUint32(layout.KeyAlignmentNumber, uint32(o.alignmentKey)))
	}
	if o.keepHeader {
		err = errors.Join(err, w.SetBytes(layout.KeyHeader, o.header))
	}
	if o.gaps != nil {
		err = errors.Join(err, w.SetBytes(layout.KeyGaps, o.gaps))
	}
	return err
}
