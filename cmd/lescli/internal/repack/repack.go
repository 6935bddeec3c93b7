// Package repack rewrites models into the contiguous layout, gives the original
// back byte for byte, and checks what a rewritten file has. It streams: memory
// is that of the metadata and of a few buffers, whatever the size of the model.
// Its functions may run side by side on different files.
package repack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/outfile"
)

// Options are what the functions that write have in common.
type Options struct {
	KeepNames bool                    // of expert tensors; Repack only
	Force     bool                    // replace the output if it exists
	Progress  func(done, total int64) // may be nil; called from one goroutine
}

// Result says what was written or checked.
type Result struct {
	Bytes   int64 // of the file
	Layers  int
	Experts int // of all layers
	Others  int // tensors that are of no expert
	Extent  int64
}

// castagnoli is the polynomial that processors have an instruction for.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Repack writes the model at in, all parts of it, to out in the contiguous
// layout.
func Repack(ctx context.Context, in, out string, opts Options) (*Result, error) {
	src, err := OpenSource(in)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	lay, err := layout.Make(src.describe(), opts.KeepNames)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in, err)
	}
	orig, err := src.original()
	if err != nil {
		return nil, err
	}
	if err := outfile.Check(out, opts.Force, src.Paths()...); err != nil {
		return nil, err
	}
	keys := func(w *llama.Writer) error {
		return src.copyKeys(w, func(key string) bool { return key != llama.KeyAlignment })
	}
	job := &repacking{src: src, keys: keys, tensors: src.tensors, lay: lay, orig: orig, checksums: newChecksums(lay)}
	if err := job.describe(); err != nil {
		return nil, fmt.Errorf("%s: %w", in, err)
	}
	defer job.meta.Close()
	size := job.base + job.meta.DataBytes()
	if job.out, err = outfile.Create(out, size); err != nil {
		return nil, err
	}
	if err := job.run(ctx, opts.Progress); err != nil {
		return nil, errors.Join(err, job.out.Discard())
	}
	return resultOf(lay.Layers, len(job.checksums.others), size), nil
}

// Possible returns nil for a model that Repack takes, else why it does not.
func Possible(path string) error {
	src, err := OpenSource(path)
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err := layout.Make(src.describe(), false); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// resultOf sums up the layers of a file.
func resultOf(layers []layout.Layer, others int, bytes int64) *Result {
	r := &Result{Bytes: bytes, Layers: len(layers), Others: others}
	for _, layer := range layers {
		r.Experts += layer.Experts
		r.Extent = max(r.Extent, layer.Stride)
	}
	return r
}

// checksums are those of a file, in the order of the metadata.
type checksums struct{ experts, others []uint32 }

func newChecksums(lay *layout.Layout) checksums {
	var sums checksums
	for _, layer := range lay.Layers {
		sums.experts = append(sums.experts, make([]uint32, layer.Experts)...)
	}
	for _, place := range lay.Places {
		if place.Layer < 0 && place.Tensor >= 0 {
			sums.others = append(sums.others, 0)
		}
	}
	return sums
}

// repacking is one model on its way.
type repacking struct {
	src       *Source                   // nil for a model that is being made
	keys      func(*llama.Writer) error // sets the metadata of the original, without an alignment
	tensors   []tensor
	lay       *layout.Layout
	orig      *original
	meta      *llama.Writer
	base      int64 // where the tensor data begin, which ggml writes all metadata to tell
	out       *outfile.File
	checksums checksums
}

// describe begins the metadata of the new file. Digest and checksums are not
// known yet; they take the same room later.
func (j *repacking) describe() error {
	meta, err := llama.NewAlignedWriter(len(j.lay.Places), expert.Align)
	if err != nil {
		return err
	}
	j.meta = meta
	err = errors.Join(
		j.keys(meta),
		meta.SetUint32(llama.KeyAlignment, expert.Align),
		setLayoutKeys(meta, j.lay, j.tensors),
		setOriginalKeys(meta, j.lay, j.orig),
		j.setResults(make([]byte, sha256.Size)))
	for _, place := range j.lay.Places {
		if place.Tensor < 0 {
			err = errors.Join(err, meta.AddTensor(place.Name, llama.I8, place.Bytes))
			continue
		}
		tensor := j.tensors[place.Tensor]
		err = errors.Join(err, meta.AddTensor(place.Name, tensor.Type, tensor.Shape[:]...))
	}
	if err != nil {
		meta.Close()
		return err
	}
	j.base = meta.MetaBytes()
	return nil
}

// setResults sets what is known at the end only.
func (j *repacking) setResults(digest []byte) error {
	return errors.Join(
		j.meta.SetString(layout.KeySHA256, hex.EncodeToString(digest)),
		j.meta.SetUint32s(layout.KeyChecksums, j.checksums.experts),
		j.meta.SetUint32s(layout.KeyOthers, j.checksums.others))
}

// run copies the data and, beside it, reads the original in its own order for
// its digest. Both go through the file at about the same pace, so that it comes
// from the disk about once.
func (j *repacking) run(ctx context.Context, progress func(done, total int64)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	digest := sha256.New()
	hashed := make(chan error, 1)
	go func() {
		err := j.orig.stream(newCopier(ctx, nil, 0), func(p []byte) error {
			digest.Write(p)
			return nil
		})
		if err != nil {
			cancel(err)
		}
		hashed <- err
	}()
	err := j.copy(newCopier(ctx, progress, j.src.bytes()))
	if err != nil {
		cancel(err)
	}
	if hashErr := <-hashed; hashErr != nil {
		err = hashErr // the same one, or the one that ended the copy
	}
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return err
	}
	return j.finish(digest.Sum(nil))
}

// finish writes the metadata and gives the file its name.
func (j *repacking) finish(digest []byte) error {
	if err := j.setResults(digest); err != nil {
		return err
	}
	meta := j.meta.Meta()
	if int64(len(meta)) != j.base {
		panic("repack: the metadata have changed their size")
	}
	if _, err := j.out.WriteAt(meta, 0); err != nil {
		return err
	}
	return j.out.Commit()
}

// copy writes the tensor data from the beginning to the end. What is padding is
// zero already.
func (j *repacking) copy(c *copier) error {
	others := 0
	for _, place := range j.lay.Places {
		if place.Layer >= 0 || place.Tensor < 0 {
			continue
		}
		at, sum := j.base+place.Off, uint32(0)
		tensor := j.src.tensors[place.Tensor]
		if err := c.copy(j.src.files[tensor.part], tensor.Off, tensor.Bytes, sinkAt(j.out, &at, &sum)); err != nil {
			return fmt.Errorf("tensor %s: %w", tensor.Name, err)
		}
		j.checksums.others[others] = sum
		others++
	}
	first := 0
	for _, layer := range j.lay.Layers {
		for id := range layer.Experts {
			sum, err := j.copyExpert(c, layer, id)
			if err != nil {
				return fmt.Errorf("block %d, expert %d: %w", layer.Block, id, err)
			}
			j.checksums.experts[first+id] = sum
		}
		first += layer.Experts
	}
	return nil
}

// sinkAt writes what is copied at a place that moves on, and sums it up.
func sinkAt(out *outfile.File, at *int64, sum *uint32) func([]byte) error {
	return func(p []byte) error {
		_, err := out.WriteAt(p, *at)
		*at += int64(len(p))
		*sum = crc32.Update(*sum, castagnoli, p)
		return err
	}
}

// copyExpert writes one extent and returns its checksum, padding included.
func (j *repacking) copyExpert(c *copier, layer layout.Layer, id int) (uint32, error) {
	sum, end := uint32(0), int64(0)
	start := j.base + layer.Off + int64(id)*layer.Stride
	for _, part := range layer.Parts {
		sum = addZeros(sum, part.Off-end)
		at := start + part.Off
		tensor := j.src.tensors[part.Tensor]
		if err := c.copy(j.src.files[tensor.part], tensor.Off+int64(id)*part.Bytes, part.Bytes, sinkAt(j.out, &at, &sum)); err != nil {
			return 0, fmt.Errorf("tensor %s: %w", tensor.Name, err)
		}
		end = part.Off + part.Bytes
	}
	return addZeros(sum, layer.Stride-end), nil
}

// padding is what lies between matrices and behind them.
var padding [expert.Align]byte

// addZeros goes on with a checksum over less than a block of zeros.
func addZeros(sum uint32, n int64) uint32 { return crc32.Update(sum, castagnoli, padding[:n]) }
