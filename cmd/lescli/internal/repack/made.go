package repack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/outfile"
)

// Made is a model that is made while it is written.
type Made struct {
	Keys    func(w *llama.Writer) error // sets all metadata, without an alignment
	Tensors []llama.TensorInfo          // in the order of the stock layout; where they lie is not looked at
	// Data hands the bytes of the i-th tensor to sink, from the first to the last.
	// It is called once for each tensor, in their order.
	Data func(ctx context.Context, i int, sink func([]byte) error) error
}

// WriteStock writes the model to out in the layout that everybody reads.
func WriteStock(ctx context.Context, out string, m Made) (*Result, error) {
	meta, err := m.header()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	defer meta.Close()
	base, bytes := meta.MetaBytes(), meta.MetaBytes()+meta.DataBytes()
	file, err := outfile.Create(out, bytes)
	if err != nil {
		return nil, err
	}
	_, err = file.WriteAt(meta.Meta(), 0)
	for i := 0; i < len(m.Tensors) && err == nil; i++ {
		off, _ := meta.Tensor(i)
		at, sum := base+off, uint32(0)
		err = m.data(ctx, i, sinkAt(file, &at, &sum))
	}
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		return nil, errors.Join(err, file.Discard())
	}
	return &Result{Bytes: bytes, Others: len(m.Tensors)}, nil
}

// WriteContiguous writes the model to out in the contiguous layout, in one go.
// What Unpack gives back is what WriteStock writes.
func WriteContiguous(ctx context.Context, out string, m Made) (*Result, error) {
	job, err := m.repacking()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", out, err)
	}
	defer job.meta.Close()
	bytes := job.base + job.meta.DataBytes()
	if job.out, err = outfile.Create(out, bytes); err != nil {
		return nil, err
	}
	if err := job.make(ctx, m); err != nil {
		return nil, errors.Join(err, job.out.Discard())
	}
	return resultOf(job.lay.Layers, len(job.checksums.others), bytes), nil
}

// StockBytes is the size of the file that WriteStock writes.
func StockBytes(m Made) (int64, error) {
	meta, err := m.header()
	if err != nil {
		return 0, err
	}
	defer meta.Close()
	return meta.MetaBytes() + meta.DataBytes(), nil
}

// ContiguousBytes is the size of the file that WriteContiguous writes.
func ContiguousBytes(m Made) (int64, error) {
	job, err := m.repacking()
	if err != nil {
		return 0, err
	}
	defer job.meta.Close()
	return job.base + job.meta.DataBytes(), nil
}

// repacking lays the model out and begins its metadata.
func (m *Made) repacking() (*repacking, error) {
	lay, err := layout.Make(m.describe(), false)
	if err != nil {
		return nil, err
	}
	orig, err := m.original()
	if err != nil {
		return nil, err
	}
	job := &repacking{keys: m.Keys, tensors: m.tensors(), lay: lay, orig: orig, checksums: newChecksums(lay)}
	return job, job.describe()
}

// header begins the metadata of the stock layout.
func (m *Made) header() (*llama.Writer, error) {
	w, err := llama.NewWriter(len(m.Tensors))
	if err != nil {
		return nil, err
	}
	err = m.Keys(w)
	for _, tensor := range m.Tensors {
		err = errors.Join(err, w.AddTensor(tensor.Name, tensor.Type, tensor.Shape[:]...))
	}
	if err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

// original describes the stock layout for the metadata of the contiguous one.
func (m *Made) original() (*original, error) {
	w, err := m.header()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	o := &original{header: w.Meta(), alignment: stockAlignment, alignmentKey: -1}
	for _, tensor := range m.Tensors {
		o.tensors = append(o.tensors, stretches{each: tensor.Bytes, n: 1})
	}
	o.bytes = o.paddedBytes()
	return o, nil
}

func (m *Made) describe() []layout.Tensor {
	var list []layout.Tensor
	for _, tensor := range m.Tensors {
		list = append(list, Describe(tensor, tensor.Off))
	}
	return list
}

func (m *Made) tensors() []tensor {
	list := make([]tensor, len(m.Tensors))
	for i, info := range m.Tensors {
		list[i] = tensor{TensorInfo: info}
	}
	return list
}

// data makes one tensor and checks that all of it came.
func (m *Made) data(ctx context.Context, i int, sink func([]byte) error) error {
	tensor, came := m.Tensors[i], int64(0)
	err := m.Data(ctx, i, func(p []byte) error {
		came += int64(len(p))
		return sink(p)
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("tensor %s: %w", tensor.Name, err)
	}
	if came != tensor.Bytes {
		panic(fmt.Sprintf("repack: tensor %s: %d bytes were made, %d described", tensor.Name, came, tensor.Bytes))
	}
	return nil
}

// make writes the tensors as they come and, beside it, sums up the bytes that the
// stock layout would have.
func (j *repacking) make(ctx context.Context, m Made) error {
	digest := sha256.New()
	digest.Write(j.orig.header)
	places := j.places()
	others := 0
	for i, tensor := range m.Tensors {
		sum := uint32(0)
		write := places[i].sink(j.out, &sum)
		err := m.data(ctx, i, func(p []byte) error {
			digest.Write(p)
			return write(p)
		})
		if err != nil {
			return err
		}
		writeZeros(digest, roundUp(tensor.Bytes, stockAlignment)-tensor.Bytes)
		if !places[i].scattered {
			j.checksums.others[others] = sum
			others++
		}
	}
	if err := j.sumExperts(ctx); err != nil {
		return err
	}
	return j.finish(digest.Sum(nil))
}

// madePlace is where the bytes of a tensor go: each piece of them, one for each
// expert, a stride behind the one before.
type madePlace struct {
	off, each, stride int64
	scattered         bool
}

func (j *repacking) places() []madePlace {
	places := make([]madePlace, len(j.tensors))
	for _, place := range j.lay.Places {
		if place.Tensor >= 0 && place.Layer < 0 {
			places[place.Tensor] = madePlace{off: j.base + place.Off, each: place.Bytes}
		}
	}
	for _, layer := range j.lay.Layers {
		for _, part := range layer.Parts {
			places[part.Tensor] = madePlace{off: j.base + layer.Off + part.Off, each: part.Bytes, stride: layer.Stride, scattered: true}
		}
	}
	return places
}

// sink writes what comes where it belongs; the sum is that of all bytes.
func (p madePlace) sink(out *outfile.File, sum *uint32) func([]byte) error {
	done := int64(0)
	return func(data []byte) error {
		*sum = crc32.Update(*sum, castagnoli, data)
		for len(data) > 0 {
			piece, within := done/p.each, done%p.each
			n := min(int64(len(data)), p.each-within)
			if _, err := out.WriteAt(data[:n], p.off+piece*p.stride+within); err != nil {
				return err
			}
			data = data[n:]
			done += n
		}
		return nil
	}
}

// sumExperts reads the extents back for their checksums: their matrices did not
// come in the order in which they lie.
func (j *repacking) sumExperts(ctx context.Context) error {
	n := 0
	for _, layer := range j.lay.Layers {
		extent := make([]byte, layer.Stride)
		for id := range layer.Experts {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if _, err := j.out.ReadAt(extent, j.base+layer.Off+int64(id)*layer.Stride); err != nil {
				return fmt.Errorf("block %d, expert %d: %w", layer.Block, id, err)
			}
			j.checksums.experts[n] = crc32.Checksum(extent, castagnoli)
			n++
		}
	}
	return nil
}

// writeZeros hashes less than a block of zeros.
func writeZeros(digest hash.Hash, n int64) { digest.Write(padding[:n]) }
