package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cgo/measure"
	"github.com/urfave/cli/v2"
)

// measureFlags are those of commands that let llama.cpp's own programs read a
// text.
func measureFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "the text"},
		&cli.IntFlag{Name: "ctx", Aliases: []string{"c"}, Value: 512, Usage: "tokens of a chunk; each begins with an empty context"},
		&cli.IntFlag{Name: "chunks", Usage: "most chunks of the text", DefaultText: "all"},
		ubatchFlag(),
		threadsFlag(),
	}, lesFlags()...)
}

// measureOptions are these flags after parsing.
type measureOptions struct {
	text, name                     string
	chunk, chunks, ubatch, threads int
	les                            lesOptions
}

// ubatchMeasured is the least for which llama.cpp collects importance data.
const ubatchMeasured = 16

func parseMeasure(c *cli.Context) (opts measureOptions, err error) {
	if err := errors.Join(noArguments(c), checkCounts(c, "ctx", "threads", "ubatch")); err != nil {
		return opts, err
	}
	opts = measureOptions{name: c.String("file"), chunk: c.Int("ctx"), chunks: c.Int("chunks"), ubatch: c.Int("ubatch"), threads: c.Int("threads")}
	switch {
	case opts.name == "":
		return opts, usagef("--file (-f) is missing: a text is needed")
	case opts.chunks < 0:
		return opts, usagef("--chunks: %d is negative", opts.chunks)
	case opts.chunks > countsMax:
		return opts, usagef("--chunks: %d is more than %d", opts.chunks, countsMax)
	case opts.ubatch < ubatchMeasured || opts.chunk < ubatchMeasured:
		return opts, usagef("--ctx (-c) and --ubatch (-ub) must be at least %d", ubatchMeasured)
	}
	if opts.les, err = parseLES(c); err != nil {
		return opts, err
	}
	if opts.text, err = readText(flagName(c, "file"), opts.name); err != nil {
		return opts, err
	}
	if strings.ContainsRune(opts.text, 0) {
		return opts, fmt.Errorf("%s: holds NUL bytes; it is not a text", opts.name)
	}
	if err := llama.CheckUTF8(opts.text); err != nil {
		return opts, fmt.Errorf("%s: %w", opts.name, err)
	}
	return opts, nil
}

// batch is as many whole chunks as one step computes, at least one.
func (o *measureOptions) batch() int { return o.chunk * max(1, o.ubatch/o.chunk) }

// measured is a model that is ready to read the text.
type measured struct {
	*session
	measure.Run
	tokens int // of the text
	line   *progressLine
}

// open loads a model for a run. An observer sees every product.
func (o *measureOptions) open(ctx context.Context, c *cli.Context, path string, observer llama.Observer) (*measured, error) {
	extra, err := o.memory(path, observer != nil)
	if err != nil {
		return nil, err
	}
	m := &measured{line: newProgressLine(c.App.ErrWriter)}
	if m.tokens, err = o.count(path); err != nil {
		return nil, err
	}
	m.session, err = openSession(ctx, sessionOptions{
		path: path, les: o.les, resident: llama.ModelParams{LoadMode: llama.LoadMap}, extra: extra, line: m.line, log: c.App.ErrWriter, origin: contextChunk,
		context: llama.ContextParams{
			Tokens: o.batch(), Batch: o.batch(), Ubatch: min(o.ubatch, o.batch()), Seqs: o.batch() / o.chunk, Threads: o.threads, Observe: observer,
		},
	})
	if err != nil {
		return nil, err
	}
	m.describe(c.App.ErrWriter)
	m.Run = measure.Run{
		Context: m.lctx, Text: o.text, TextName: o.name, Chunk: o.chunk, Batch: o.batch(), Chunks: o.chunks,
		Progress: func(done, total int64) { m.line.show("%s: %d of %d tokens", path, done, total) },
	}
	return m, nil
}

// count is how many tokens of the model the text has. What cannot be measured with
// them is refused, before the weights are read.
func (o *measureOptions) count(path string) (n int, err error) {
	err = withVocabulary(path, func(model *llama.Model) error {
		if model.EndsTexts() {
			return fmt.Errorf("%s: wants a token behind each text, with which llama.cpp cannot measure", path)
		}
		tokens, err := model.Tokenize(o.text, true)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		if n = len(tokens); n < 2*o.chunk {
			return fmt.Errorf("%s: has %d tokens; two chunks of %d (--ctx, -c) are the least", o.name, n, o.chunk)
		}
		return nil
	})
	return n, err
}

// memory is what a run takes beside the model and its context: the logits of a
// batch, and importance data twice, as they are collected and as they are
// written.
func (o *measureOptions) memory(path string, importance bool) (int64, error) {
	parts, err := llama.OpenParts(path)
	if err != nil {
		return 0, err
	}
	defer llama.CloseParts(parts)
	vocab, _ := parts[0].ArrayLen("tokenizer.ggml.tokens")
	bytes := int64(o.batch()) * int64(vocab) * 4 * 2
	if importance {
		bytes += 2 * importanceOf(parts)
	}
	return bytes, nil
}

// importanceBytes is about the size of a file of importance data.
func importanceBytes(path string) (int64, error) {
	parts, err := llama.OpenParts(path)
	if err != nil {
		return 0, err
	}
	defer llama.CloseParts(parts)
	return importanceOf(parts), nil
}

// importanceOf is what the sums of all columns of all matrices take.
func importanceOf(parts []*llama.File) (bytes int64) {
	for _, part := range parts {
		for _, tensor := range part.Tensors() {
			if tensor.Shape[1] > 1 {
				bytes += tensor.Shape[0] * tensor.Shape[2] * 4
			}
		}
	}
	return bytes
}

// result prefers the reason for which a read of experts failed, and takes the
// progress line away.
func (m *measured) result(err error) error {
	m.line.clear()
	if err == nil || m.engine == nil {
		return err
	}
	if reason := m.engine.Err(); reason != nil {
		return reason
	}
	return err
}
