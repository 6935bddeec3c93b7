// Package quantize writes a model anew with fewer bits: types tensor by tensor as
// llama.cpp's quantiser chooses them, experts apart from the rest, every block
// made by ggml's own functions. It streams: memory is that of the importance
// data and of a few buffers, whatever the size of the model. A Quantizer belongs
// to one goroutine and owns its source until Close.
package quantize

import (
	"context"
	"fmt"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/repack"
	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/outfile"
)

// Quantizer is one model that is to be quantised.
type Quantizer struct {
	Tensors []Tensor // in the order of the new file
	src     *repack.Source
	opts    Options
}

// Open reads the metadata of the model at path and chooses types. Nothing is
// written.
func Open(path string, opts Options) (*Quantizer, error) {
	src, err := repack.OpenSource(path)
	if err != nil {
		return nil, err
	}
	q := &Quantizer{src: src, opts: opts}
	if err := q.choose(); err != nil {
		src.Close()
		return nil, err
	}
	return q, nil
}

// Close closes the source.
func (q *Quantizer) Close() { q.src.Close() }

// ModelName is what the model is called, empty where it has no name.
func (q *Quantizer) ModelName() string {
	name, _ := q.src.Meta().String("general.name")
	return name
}

// Bytes is the size of the new file.
func (q *Quantizer) Bytes() (int64, error) {
	if q.opts.Contiguous {
		return repack.ContiguousBytes(q.made(nil))
	}
	return repack.StockBytes(q.made(nil))
}

// SourceBytes is the size of all tensors as they are.
func (q *Quantizer) SourceBytes() (sum int64) {
	for _, info := range q.src.Tensors() {
		sum += info.Bytes
	}
	return sum
}

// ExpertBytes is what an expert takes, the mean of all and that of the largest. All
// experts of one kind in a block have the same size.
func (q *Quantizer) ExpertBytes() (mean, largest int64) {
	layers := map[layout.Name]int64{}
	sum, experts := int64(0), int64(0)
	seen := map[layout.Name]bool{}
	for _, t := range q.Tensors {
		if !t.Expert {
			continue
		}
		key := layout.Name{Block: t.Name.Block, Kind: t.Name.Kind}
		layers[key] += t.Bytes / t.Shape[2]
		largest = max(largest, layers[key])
		sum += t.Bytes
		if !seen[key] {
			seen[key], experts = true, experts+t.Shape[2]
		}
	}
	return sum / max(1, experts), largest
}

// Write makes the new file. It has its name when it is whole, and is not there
// otherwise.
func (q *Quantizer) Write(ctx context.Context, out string, force bool, progress func(done, total int64)) (*repack.Result, error) {
	if err := outfile.Check(out, force, q.src.Paths()...); err != nil {
		return nil, err
	}
	made := q.made(newConverter(q.src, progress))
	if q.opts.Contiguous {
		return repack.WriteContiguous(ctx, out, made)
	}
	return repack.WriteStock(ctx, out, made)
}

// made describes the new model to its writer.
func (q *Quantizer) made(c *converter) repack.Made {
	infos := make([]llama.TensorInfo, len(q.Tensors))
	for i, t := range q.Tensors {
		infos[i] = t.TensorInfo
	}
	return repack.Made{
		Keys: q.keys, Tensors: infos,
		Data: func(ctx context.Context, i int, sink func([]byte) error) error {
			return c.convert(ctx, &q.Tensors[i], sink)
		},
	}
}

// keys writes the metadata that llama-quantize writes. What belongs to a file in
// parts or to a wider alignment stays behind.
func (q *Quantizer) keys(w *llama.Writer) error {
	w.CopyKeys(q.src.Meta(), func(key string) bool {
		switch key {
		case llama.KeyAlignment, "split.no", "split.count", "split.tensors.count":
			return false
		}
		return true
	})
	if err := w.SetUint32("general.quantization_version", llama.QuantizationVersion); err != nil {
		return err
	}
	if err := w.SetUint32("general.file_type", uint32(q.opts.Rest)); err != nil {
		return err
	}
	if q.opts.Imatrix == nil {
		return nil
	}
	return q.opts.Imatrix.keys(w)
}

// Fallback is a group of tensors that got another type for the same reason.
type Fallback struct {
	Asked, Type llama.TensorType
	Why         string
	Names       []string
}

func (f Fallback) String() string {
	return fmt.Sprintf("%v instead of %v, %s", f.Type, f.Asked, f.Why)
}

// Fallbacks groups the tensors that did not get the type they should.
func (q *Quantizer) Fallbacks() (groups []Fallback) {
	index := map[string]int{}
	for _, t := range q.Tensors {
		if t.Why == "" {
			continue
		}
		group := Fallback{Asked: t.Asked, Type: t.Type, Why: t.Why}
		i, ok := index[group.String()]
		if !ok {
			i = len(groups)
			index[group.String()] = i
			groups = append(groups, group)
		}
		groups[i].Names = append(groups[i].Names, t.TensorInfo.Name)
	}
	return groups
}
