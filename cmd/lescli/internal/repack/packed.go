package repack

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/layout"
)

// ErrStock is returned for a file that has the stock layout.
var ErrStock = errors.New("has the stock layout")

// stockAlignment holds where a file says nothing.
const stockAlignment = 32

// Layout reads the layout of a file; it is nil for the stock one.
func Layout(file *llama.File) (*layout.Stored, error) {
	var tensors []layout.Tensor
	for _, info := range file.Tensors() {
		tensors = append(tensors, Describe(info, file.DataOff()))
	}
	stored, err := layout.Read(file, tensors)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Path(), err)
	}
	if parts, _ := file.Int(keySplitCount); stored != nil && parts > 1 {
		return nil, fmt.Errorf("%s: has the contiguous layout and %d parts, which cannot be", file.Path(), parts)
	}
	return stored, nil
}

// packed is a file of the contiguous layout.
type packed struct {
	meta   *llama.File
	file   *os.File
	stored *layout.Stored
}

func openPacked(path string) (_ *packed, err error) {
	meta, err := llama.OpenFile(path)
	if err != nil {
		return nil, err
	}
	p := &packed{meta: meta}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.stored, err = Layout(meta); err != nil {
		return nil, err
	}
	if p.stored == nil {
		return nil, fmt.Errorf("%s: %w", path, ErrStock)
	}
	p.file, err = os.Open(path)
	return p, err
}

func (p *packed) close() {
	if p.file != nil {
		p.file.Close() // it was only read
	}
	p.meta.Close()
}

// checkSize refuses a file that is longer than it was written. Those who read
// tensors do not mind, but it is not the file that has the checksums.
func (p *packed) checkSize(bytes int64) error {
	written := p.meta.DataOff()
	for _, tensor := range p.meta.Tensors() {
		written += roundUp(tensor.Bytes, p.meta.Alignment())
	}
	if bytes != written {
		return fmt.Errorf("%s: has %d bytes, it was written with %d", p.meta.Path(), bytes, written)
	}
	return nil
}

// original describes the file that was rewritten.
func (p *packed) original() (*original, error) {
	o := &original{alignment: stockAlignment, alignmentKey: -1}
	bytes, ok := p.meta.Int(layout.KeyBytes)
	if !ok || bytes < 0 {
		return nil, fmt.Errorf("%s: %s is missing", p.meta.Path(), layout.KeyBytes)
	}
	o.bytes = bytes
	if alignment, ok := p.meta.Int(layout.KeyAlignment); ok {
		place, _ := p.meta.Int(layout.KeyAlignmentNumber)
		o.alignment, o.alignmentKey = alignment, int(place)
	}
	if o.alignment <= 0 || o.alignment > llama.AlignmentMax {
		return nil, fmt.Errorf("%s: %s is %d", p.meta.Path(), layout.KeyAlignment, o.alignment)
	}
	o.tensors = p.stretches()
	o.gaps, _ = p.meta.Bytes(layout.KeyGaps)
	if o.header, ok = p.meta.Bytes(layout.KeyHeader); !ok {
		header, err := p.header(o)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.meta.Path(), err)
		}
		o.header = header
	}
	if end := o.paddedBytes(); o.bytes-end > gapBytesMax {
		return nil, fmt.Errorf("%s: %s is %d, its tensors end at %d", p.meta.Path(), layout.KeyBytes, o.bytes, end)
	}
	gaps, err := o.gapBytes()
	if err == nil && o.gaps != nil && gaps != int64(len(o.gaps)) {
		err = fmt.Errorf("%s has %d bytes, want %d", layout.KeyGaps, len(o.gaps), gaps)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.meta.Path(), err)
	}
	return o, nil
}

// stretches lists where the tensors of the original are, in its order.
func (p *packed) stretches() []stretches {
	infos := p.meta.Tensors()
	all := make([]stretches, len(infos))
	for i, info := range infos {
		all[i] = stretches{file: p.file, off: info.Off, each: info.Bytes, n: 1}
	}
	for _, layer := range p.stored.Layers {
		for _, part := range layer.Parts {
			all[part.Tensor] = stretches{
				file: p.file, off: p.meta.DataOff() + layer.Off + part.Off, each: part.Bytes, stride: layer.Stride, n: layer.Experts,
			}
		}
	}
	ordered := make([]stretches, len(p.stored.Order))
	for i, at := range p.stored.Order {
		ordered[i] = all[at]
	}
	return ordered
}

// header writes the metadata of the original.
func (p *packed) header(o *original) ([]byte, error) {
	w, err := llama.NewAlignedWriter(len(o.tensors), o.alignment)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	n := -1 // number of the key among those that are to be kept
	ours := func(key string) bool { return key == llama.KeyAlignment || strings.HasPrefix(key, layout.KeyPrefix) }
	if o.alignmentKey >= 0 {
		w.CopyKeys(p.meta, func(key string) bool {
			if ours(key) {
				return false
			}
			n++
			return n < o.alignmentKey
		})
		err = w.SetUint32(llama.KeyAlignment, uint32(o.alignment))
	}
	n = -1
	w.CopyKeys(p.meta, func(key string) bool {
		if ours(key) {
			return false
		}
		n++
		return n >= o.alignmentKey
	})
	for _, at := range p.stored.Order {
		info := p.meta.Tensors()[at]
		err = errors.Join(err, w.AddTensor(p.stored.Names[at], info.Type, info.Shape[:]...))
	}
	if err != nil {
		return nil, err
	}
	return w.Meta(), nil
}
