package quantize

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/repack"
)

// pieceElements is how many elements one worker converts at a time: some
// megabytes as numbers, and long enough that starting a worker costs nothing.
const pieceElements = 1 << 20

// converter turns tensors of a source into other types, slab by slab.
type converter struct {
	src         *repack.Source
	progress    func(done, total int64) // may be nil
	done, total int64                   // bytes of the source
	workers     []worker
	from, to    []byte // one slab
}

// worker is what one thread needs to convert a piece.
type worker struct {
	rows   llama.Rows
	floats []float32
	err    error
}

func newConverter(src *repack.Source, progress func(done, total int64)) *converter {
	c := &converter{src: src, progress: progress, workers: make([]worker, runtime.GOMAXPROCS(0))}
	for _, info := range src.Tensors() {
		c.total += info.Bytes
	}
	return c
}

// convert hands the bytes of a tensor, in its new type, to sink. Slabs are whole
// rows of one matrix, because each expert's has weights of its own.
func (c *converter) convert(ctx context.Context, t *Tensor, sink func([]byte) error) error {
	columns, rows := t.Shape[0], t.Shape[1]
	slab := max(1, int64(len(c.workers))*pieceElements/columns)
	for id := range t.Shape[2] * t.Shape[3] {
		for row := int64(0); row < rows; row += slab {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n := min(slab, rows-row)
			if err := c.convertSlab(t, id, row, n); err != nil {
				return fmt.Errorf("%s: matrix %d, rows %d to %d: %w", c.src.PathOf(t.source), id, row, row+n-1, err)
			}
			if err := sink(c.to); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertSlab reads rows of one matrix and leaves them, converted, in c.to.
func (c *converter) convertSlab(t *Tensor, id, row, n int64) error {
	fromRow, toRow := t.From.RowBytes(t.Shape[0]), t.Type.RowBytes(t.Shape[0])
	c.from = sized(c.from, n*fromRow)
	if err := c.src.ReadAt(t.source, c.from, (id*t.Shape[1]+row)*fromRow); err != nil {
		return err
	}
	c.done += n * fromRow
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
	c.to = sized(c.to, n*toRow)
	if !t.changed() {
		copy(c.to, c.from)
		return llama.CheckRows(t.Type, c.from)
	}
	var weights []float32
	if t.Importance != nil {
		weights = t.Importance.Matrix(id)
	}
	return c.share(llama.Rows{From: t.From, To: t.Type, Columns: t.Shape[0], Src: c.from, Dst: c.to, Weights: weights}, n)
}

// share gives each worker its part of the rows.
func (c *converter) share(all llama.Rows, n int64) error {
	each := (n + int64(len(c.workers)) - 1) / int64(len(c.workers))
	from, to := all.From.RowBytes(all.Columns), all.To.RowBytes(all.Columns)
	var running sync.WaitGroup
	for i := range c.workers {
		w := &c.workers[i]
		first, end := min(n, int64(i)*each), min(n, int64(i+1)*each)
		w.err = nil
		if first == end {
			continue
		}
		w.floats = sized(w.floats, (end-first)*all.Columns)
		w.rows = all
		w.rows.Src, w.rows.Dst, w.rows.Floats = all.Src[first*from:end*from], all.Dst[first*to:end*to], w.floats
		running.Go(func() { w.err = w.rows.Convert() })
	}
	running.Wait()
	for i := range c.workers {
		if c.workers[i].err != nil {
			return c.workers[i].err
		}
	}
	return nil
}

// sized is a buffer of n elements, the old one if that is large enough.
func sized[T any](buf []T, n int64) []T {
	if int64(cap(buf)) < n {
		return make([]T, n)
	}
	return buf[:n]
}
