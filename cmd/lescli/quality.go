package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/les-project/les/cgo/measure"
	"github.com/les-project/les/lesext/outfile"
	"github.com/urfave/cli/v2"
)

func qualityCommand() *cli.Command {
	return &cli.Command{
		Name:  "quality",
		Usage: "measure what quantising cost, on a text",
		Description: "Perplexity, divergence from the distributions of a reference, and how often the most " +
			"likely token is the same, by llama.cpp's own code, streamed if there are experts.",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "model", Aliases: []string{"m"}, Usage: "model to measure; may be given several times"},
			&cli.StringFlag{Name: "ref", Usage: "the model it was made from"},
			jsonFlag(),
		}, measureFlags()...),
		Action: runQuality,
	}
}

// qualityRow is one model of the report.
type qualityRow struct {
	Model           string  `json:"model"`
	Bytes           int64   `json:"bytes"`
	ExpertBytes     int64   `json:"expert_bytes"` // of the largest one, 0 without experts
	Perplexity      float64 `json:"perplexity"`
	PerplexityError float64 `json:"perplexity_error"`
	KL              float64 `json:"kl_mean"`
	KLError         float64 `json:"kl_mean_error"`
	KL99            float64 `json:"kl_p99"`
	SameTop         float64 `json:"same_top_percent"`
}

// qualityReport is what --json writes.
type qualityReport struct {
	Text   string       `json:"text"`
	Chunk  int          `json:"chunk_tokens"`
	Chunks int          `json:"chunks"`
	Ref    qualityRow   `json:"reference"`
	Models []qualityRow `json:"models"`
}

func runQuality(c *cli.Context) error {
	opts, err := parseMeasure(c)
	if err != nil {
		return err
	}
	models := c.StringSlice("model")
	switch {
	case len(models) == 0:
		return usagef("--model (-m) is missing")
	case c.String("ref") == "":
		return usagef("--ref is missing: what to compare with")
	}
	if err := checkReport(c); err != nil {
		return err
	}
	ctx, release := interruptible(c.Context)
	defer release()
	report, err := measureQuality(ctx, c, opts, models)
	if err != nil {
		return err
	}
	report.print(c.App.Writer)
	if name := c.String("json"); name != "" {
		return writeJSON(name, report)
	}
	return nil
}

// measureQuality keeps the distributions of the reference in a temporary file
// while the models are compared with them.
func measureQuality(ctx context.Context, c *cli.Context, opts measureOptions, models []string) (*qualityReport, error) {
	dir, err := os.MkdirTemp("", "lescli-quality-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	q := &qualityRun{ctx: ctx, c: c, opts: opts, file: filepath.Join(dir, "distributions")}
	for _, path := range models { // before hours with the reference
		if _, err := readModelFile(path); err != nil {
			return nil, err
		}
	}
	report := &qualityReport{Text: opts.name, Chunk: opts.chunk}
	if report.Ref, err = q.reference(c.String("ref")); err != nil {
		return nil, err
	}
	report.Chunks = q.chunks
	for _, path := range models {
		row, err := q.compare(path)
		if err != nil {
			return nil, err
		}
		report.Models = append(report.Models, row)
	}
	return report, nil
}

// qualityRun is one text on its way through several models.
type qualityRun struct {
	ctx    context.Context
	c      *cli.Context
	opts   measureOptions
	file   string // the reference's distributions
	vocab  int    // of the reference
	chunks int
}

// countedLeast is how many tokens llama.cpp makes statistics of at least.
const countedLeast = 100

// reference reads the text with the reference and keeps its distributions.
func (q *qualityRun) reference(path string) (row qualityRow, err error) {
	m, err := q.opts.open(q.ctx, q.c, path, nil)
	if err != nil {
		return row, err
	}
	defer m.Close()
	q.vocab, q.chunks = m.model.VocabSize(), m.tokens/q.opts.chunk
	if q.opts.chunks > 0 {
		q.chunks = min(q.chunks, q.opts.chunks)
	}
	if counted := q.chunks * (q.opts.chunk - 1 - q.opts.chunk/2); counted < countedLeast {
		return row, fmt.Errorf("%s: %d tokens would be counted, %d are the least: a longer text or more --chunks are needed", q.opts.name, counted, countedLeast)
	}
	if err := outfile.CheckSpace(q.file, q.distributionBytes()); err != nil {
		return row, err
	}
	m.File = q.file
	p, err := m.Perplexity(q.ctx)
	if err = m.result(err); err != nil {
		return row, fmt.Errorf("%s: %w", path, err)
	}
	if info, err := os.Stat(q.file); err != nil || info.Size() != q.distributionBytes() {
		return row, fmt.Errorf("%s: not all of %d bytes were written; is the disk full?", q.file, q.distributionBytes())
	}
	row, err = describeRow(path)
	row.Perplexity, row.PerplexityError, row.SameTop = p.Value, p.Error, 100
	return row, err
}

// distributionBytes is the size of llama.cpp's file: a header, the tokens, and
// for the second half of each chunk 16 bits for each token of the vocabulary.
func (q *qualityRun) distributionBytes() int64 {
	const header, scale = 20, 4
	chunk, vocab := int64(q.opts.chunk), int64(q.vocab)
	each := 2 * (2*((vocab+1)/2) + scale)
	return header + int64(q.chunks)*(4*chunk+(chunk-1-chunk/2)*each)
}

// compare reads the text with a model.
func (q *qualityRun) compare(path string) (row qualityRow, err error) {
	m, err := q.opts.open(q.ctx, q.c, path, nil)
	if err != nil {
		return row, err
	}
	defer m.Close()
	if vocab := m.model.VocabSize(); vocab != q.vocab {
		return row, fmt.Errorf("%s: has a vocabulary of %d tokens, the reference has %d; they cannot be compared", path, vocab, q.vocab)
	}
	m.File = q.file
	var d measure.Divergence
	d, err = m.Divergence(q.ctx)
	if err = m.result(err); err != nil {
		return row, fmt.Errorf("%s: %w", path, err)
	}
	row, err = describeRow(path)
	row.Perplexity, row.PerplexityError = d.Perplexity.Value, d.Perplexity.Error
	row.KL, row.KLError, row.KL99, row.SameTop = d.KL, d.KLError, d.KL99, d.SameTop
	return row, err
}

// describeRow has what the file says.
func describeRow(path string) (row qualityRow, err error) {
	file, err := readModelFile(path)
	if err != nil {
		return row, err
	}
	row = qualityRow{Model: path, ExpertBytes: file.expertBytes()}
	for _, part := range file.paths {
		info, err := os.Stat(part)
		if err != nil {
			return row, err
		}
		row.Bytes += info.Size()
	}
	return row, nil
}

// print writes the one table.
func (r *qualityReport) print(out io.Writer) {
	fmt.Fprintf(out, "%s, %d chunks of %d tokens, the second half of each counted\n", r.Text, r.Chunks, r.Chunk)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "size\tan expert\tperplexity\t+-\tKL mean\t+-\tKL 99 %\tsame top\t  model\t")
	for i, row := range append([]qualityRow{r.Ref}, r.Models...) {
		name := row.Model
		if i == 0 {
			name += " (reference)"
		}
		fmt.Fprintf(w, "%s\t%d\t%.4f\t%.4f\t%.6f\t%.6f\t%.6f\t%.2f %%\t  %s\t\n", formatSize(row.Bytes), row.ExpertBytes,
			row.Perplexity, row.PerplexityError, row.KL, row.KLError, row.KL99, row.SameTop, name)
	}
	w.Flush()
}
