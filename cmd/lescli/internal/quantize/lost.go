package quantize

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/les-project/les/cgo/llama"
)

// How much of a tensor is looked at to tell what a type loses: the shares of
// experts and of rows differ by a few percent, those of types by a factor of four.
const (
	lostMatrices = 16
	lostRows     = 128
)

// lost is the share of a tensor's output that its type loses, as told by the
// weights of some rows of some matrices. Experts count as often as they were used.
func (c *converter) lost(ctx context.Context, t *Tensor) (float64, error) {
	if !t.changed() {
		return 0, nil
	}
	var (
		wait      sync.WaitGroup
		mu        sync.Mutex // guards the sums and the error
		lost, all float64
		failed    error
	)
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	matrices := t.Shape[2] * t.Shape[3]
	for _, id := range spread(matrices, lostMatrices) {
		if ctx.Err() != nil {
			break
		}
		limit <- struct{}{}
		wait.Go(func() {
			defer func() { <-limit }()
			l, a, err := c.lostOf(t, id)
			mu.Lock()
			defer mu.Unlock()
			uses := t.uses(id)
			lost, all = lost+uses*l, all+uses*a
			if err != nil {
				failed = fmt.Errorf("tensor %s: %s: matrix %d: %w", t.TensorInfo.Name, c.src.PathOf(t.source), id, err)
			}
		})
	}
	wait.Wait()
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case failed != nil || all == 0:
		return 0, failed
	}
	return lost / all, nil
}

// uses is how often a matrix was used in calibration; 1 where that is not known.
func (t *Tensor) uses(id int64) float64 {
	if t.Importance == nil || int64(len(t.Importance.Counts)) <= id || len(t.Importance.Counts) == 1 {
		return 1
	}
	return max(1, float64(t.Importance.Counts[id]))
}

// lostOf measures some rows of one matrix.
func (c *converter) lostOf(t *Tensor, id int64) (lost, all float64, err error) {
	row := t.From.RowBytes(t.Shape[0])
	picked := spread(t.Shape[1], lostRows)
	r := llama.Rows{
		From: t.From, To: t.Type, Columns: t.Shape[0], Src: make([]byte, row*int64(len(picked))),
		Dst: make([]byte, t.Type.RowBytes(t.Shape[0])*int64(len(picked))), Floats: make([]float32, 2*t.Shape[0]*int64(len(picked))),
	}
	if t.Importance != nil {
		r.Weights = t.Importance.Matrix(id)
	}
	for i, n := range picked {
		if err := c.src.ReadAt(t.source, r.Src[int64(i)*row:int64(i+1)*row], (id*t.Shape[1]+n)*row); err != nil {
			return 0, 0, err
		}
	}
	if err := r.Convert(); err != nil {
		return 0, 0, err
	}
	lost, all = r.Lost()
	return lost, all, nil
}

// spread picks at most some of n numbers, evenly.
func spread(n, most int64) []int64 {
	var picked []int64
	for i := range min(n, most) {
		picked = append(picked, i*n/min(n, most))
	}
	return picked
}
