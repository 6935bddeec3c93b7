// Package measure runs llama.cpp's own programs for importance data, perplexity
// and divergence on a context that its caller has made, streamed or not. Their
// source is compiled as it is; what it takes from llama.cpp's common library is
// put in its place by standin.h. One run at a time in a process; the caller owns
// the context, and the files that are read and written.
package measure

// #include "measure.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// ModelKey says in importance data what their model is called.
const ModelKey = C.LES_MEASURE_MODEL_KEY

// Run is one measurement.
type Run struct {
	Context  *llama.Context
	Text     string
	TextName string // noted in importance data
	File     string // written, or read by Divergence
	Chunk    int    // tokens of a chunk
	Batch    int    // tokens of a batch: a multiple of a chunk
	Chunks   int    // at most; 0 for all

	// Progress is called now and then from another goroutine; it may be nil.
	Progress func(done, total int64)
}

// Perplexity is how well a model foretells a text.
type Perplexity struct{ Value, Error float64 }

// Divergence compares a model's distributions with those of a reference.
type Divergence struct {
	Perplexity Perplexity
	KL         float64 // mean
	KLError    float64
	KL99       float64 // of all tokens but the worst hundredth
	SameTop    float64 // share of tokens whose most likely one is the same, in percent
}

// Observer is what a context must have been made with for Imatrix.
func Observer() llama.Observer { return llama.Observer(C.les_measure_observe) }

// Imatrix collects importance data of the text and writes them to r.File.
func (r *Run) Imatrix(ctx context.Context) error {
	_, err := r.run(ctx, C.LES_MEASURE_IMATRIX)
	return err
}

// Perplexity measures it, and writes the distributions to r.File unless that is
// empty.
func (r *Run) Perplexity(ctx context.Context) (p Perplexity, err error) {
	text, err := r.run(ctx, C.LES_MEASURE_PERPLEXITY)
	if err != nil {
		return p, err
	}
	return p, find(text, `Final estimate: PPL = *(\S+) \+/- *(\S+)`, &p.Value, &p.Error)
}

// Divergence compares with the distributions that Perplexity wrote.
func (r *Run) Divergence(ctx context.Context) (d Divergence, err error) {
	text, err := r.run(ctx, C.LES_MEASURE_DIVERGENCE)
	if err != nil {
		return d, err
	}
	return d, errors.Join(
		find(text, `Mean PPL\(Q\) +: +(\S+) ± +(\S+)`, &d.Perplexity.Value, &d.Perplexity.Error),
		find(text, `Mean +KLD: +(\S+) ± +(\S+)`, &d.KL, &d.KLError),
		find(text, `99\.0% +KLD: +(\S+)`, &d.KL99),
		find(text, `Same top p: +(\S+) `, &d.SameTop))
}

// find reads numbers from what the program printed.
func find(text, pattern string, values ...*float64) error {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("llama.cpp printed nothing like %q", pattern)
	}
	for i, value := range values {
		number, err := strconv.ParseFloat(m[i+1], 64)
		if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
			return fmt.Errorf("llama.cpp printed %q: %s is not a number", m[0], m[i+1])
		}
		*value = number
	}
	return nil
}

// run runs the program to its end or until the context is done, and returns
// what it printed.
func (r *Run) run(ctx context.Context, what C.enum_les_measure_what) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	request := C.struct_les_measure_request{
		what: what, lctx: (*C.struct_llama_context)(r.Context.Pointer()),
		n_ctx: C.int32_t(r.Chunk), n_batch: C.int32_t(r.Batch), n_chunks: -1,
	}
	if r.Chunks > 0 {
		request.n_chunks = C.int32_t(r.Chunks)
	}
	ended := r.watch(ctx)
	text, ok, err := r.call(&request)
	ended()
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case strings.Contains(text, "you need at least"): // the program does not fail then
		return "", fmt.Errorf("%s: the text has less than %d tokens, two chunks of %d", r.TextName, 2*r.Chunk, r.Chunk)
	case !ok:
		return "", fmt.Errorf("llama.cpp: %s", lastLine(text))
	}
	return text, nil
}

// call lends the texts to C for the time of the program.
func (r *Run) call(request *C.struct_les_measure_request) (said string, ok bool, err error) {
	err = withCStrings([]string{r.Text, r.TextName, r.File}, func(texts []*C.char) {
		request.text, request.text_name, request.file = texts[0], texts[1], texts[2]
		var agreed C.bool
		said, ok = takeString(C.les_measure_run(request, &agreed)), bool(agreed)
	})
	if err != nil {
		err = fmt.Errorf("%s: %w", r.TextName, err)
	}
	return said, ok, err
}

// watchInterval is how often progress is shown and an end looked for.
const watchInterval = 200 * time.Millisecond

// watch passes on the end of the context and reports progress until the returned
// function is called.
func (r *Run) watch(ctx context.Context) (ended func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				r.look(ctx)
			}
		}
	}()
	return func() {
		close(stop)
		<-stopped
	}
}

func (r *Run) look(ctx context.Context) {
	if ctx.Err() != nil {
		C.les_measure_stop()
	}
	if r.Progress != nil {
		var done, total C.int64_t
		C.les_measure_progress(&done, &total)
		r.Progress(int64(done), int64(total))
	}
}

// lastLine is where a program that failed says why.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
