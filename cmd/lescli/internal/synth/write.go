package synth

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/outfile"
)

// Options choose the variant of a preset.
type Options struct {
	ExpertType llama.TensorType
	Seed       uint64
	Progress   func(written, total int64) // may be nil; called from one goroutine at a time
}

// pieceElements is how much of a tensor one worker makes at a time: a multiple
// of every block size, some megabytes in the largest type.
const pieceElements = 1 << 21

// Write makes the model at path. It writes to a temporary name beside it and
// renames at the end; on failure, and when the context ends, nothing is left behind.
func Write(ctx context.Context, path string, preset Preset, opts Options) (err error) {
	s := preset.shape
	s.expertType = opts.ExpertType
	p := newPlan(s)
	writer, err := p.header()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer writer.Close()
	total := writer.MetaBytes() + writer.DataBytes()
	file, err := outfile.Create(path, total)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, file.Discard())
		}
	}()
	if err := p.writeData(ctx, file, writer, opts); err != nil {
		return err
	}
	return file.Commit()
}

// header builds the metadata, vocabulary included.
func (p *plan) header() (*llama.Writer, error) {
	writer, err := llama.NewWriter(len(p.tensors))
	if err != nil {
		return nil, err
	}
	for _, k := range p.keys {
		err = errors.Join(err, setKey(writer, k))
	}
	tokens, types, merges := vocabulary(p.shape.vocab)
	last := uint32(len(tokens) - 1)
	err = errors.Join(err,
		writer.SetString("tokenizer.ggml.model", "gpt2"),
		writer.SetString("tokenizer.ggml.pre", "qwen2"),
		writer.SetStrings("tokenizer.ggml.tokens", tokens),
		writer.SetInt32s("tokenizer.ggml.token_type", types),
		writer.SetStrings("tokenizer.ggml.merges", merges),
		writer.SetUint32("tokenizer.ggml.eos_token_id", last),
		writer.SetUint32("tokenizer.ggml.padding_token_id", last),
		writer.SetBool("tokenizer.ggml.add_bos_token", false),
		writer.SetString("tokenizer.chat_template", chatTemplate))
	for _, t := range p.tensors {
		err = errors.Join(err, writer.AddTensor(t.name, t.dtype, t.shape...))
	}
	if err != nil {
		writer.Close()
		return nil, err
	}
	return writer, nil
}

func setKey(writer *llama.Writer, k key) error {
	switch value := k.value.(type) {
	case string:
		return writer.SetString(k.name, value)
	case int:
		return writer.SetUint32(k.name, uint32(value))
	case int64:
		return writer.SetUint32(k.name, uint32(value))
	case float32:
		return writer.SetFloat32(k.name, value)
	case bool:
		return writer.SetBool(k.name, value)
	case []int32:
		return writer.SetInt32s(k.name, value)
	}
	panic(fmt.Sprintf("synth: key %s has type %T", k.name, k.value))
}

// piece is a part of a tensor and its place in the file.
type piece struct {
	tensor *tensor
	off    int64 // within the tensor
	at     int64 // within the file
	size   int64
}

// writeData writes the header and every tensor. Pieces are handed to one
// worker a processor; each makes its bytes and writes them at their place.
func (p *plan) writeData(ctx context.Context, file *outfile.File, writer *llama.Writer, opts Options) error {
	total := writer.MetaBytes() + writer.DataBytes()
	if _, err := file.WriteAt(writer.Meta(), 0); err != nil {
		return err
	}
	pieces := make(chan piece)
	done := &progress{report: opts.Progress, total: total}
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			work(file, pieces, opts.Seed, done)
		}()
	}
	for i := 0; i < len(p.tensors) && ctx.Err() == nil; i++ {
		off, size := writer.Tensor(i)
		p.tensors[i].cut(ctx, writer.MetaBytes()+off, size, pieces)
	}
	close(pieces)
	workers.Wait()
	return errors.Join(done.err, ctx.Err())
}

// cut sends the tensor's bytes, which start at the given place, in pieces until
// the context ends.
func (t *tensor) cut(ctx context.Context, at, size int64, pieces chan<- piece) {
	step := pieceElements / t.dtype.BlockElements() * t.dtype.BlockBytes()
	for off := int64(0); off < size && ctx.Err() == nil; off += step {
		pieces <- piece{t, off, at + off, min(step, size-off)} // workers drain it to the end
	}
}

// work makes and writes pieces until there are no more. After a failure the
// rest is only drained, so that the sender never blocks.
func work(file *outfile.File, pieces <-chan piece, seed uint64, done *progress) {
	var buf []byte
	for piece := range pieces {
		if done.failed() {
			continue
		}
		if int64(cap(buf)) < piece.size {
			buf = make([]byte, piece.size)
		}
		buf = buf[:piece.size]
		r := seedFor(seed, piece.tensor.name, piece.off)
		piece.tensor.fill(buf, &r)
		_, err := file.WriteAt(buf, piece.at)
		done.add(piece.size, err)
	}
}

// progress counts what is written; its mutex guards all but the set-up fields.
type progress struct {
	report func(written, total int64)
	total  int64

	mu      sync.Mutex
	written int64
	err     error
}

func (p *progress) add(n int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.written += n
	if err != nil && p.err == nil {
		p.err = err
	}
	if p.report != nil {
		p.report(p.written, p.total)
	}
}

func (p *progress) failed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err != nil
}
