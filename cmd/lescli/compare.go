package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"unsafe"
)

// verifier records the resident logits of every shape to files and compares
// streamed runs with them.
type verifier struct {
	opts verifyOptions
	out  io.Writer
	line *progressLine
	log  io.Writer
	dir  string

	compared int64 // logits
	runs     int   // streamed
	layers   int   // streamed layers, 0 when all runs were resident
	experts  int   // of one of them
	resizes  int   // changes of the number of slots
	nodes    int64 // MoE nodes computed
	steps    int64 // of all layers
}

// verifyReport is what verify reports; its field names are those of --json.
type verifyReport struct {
	Model         string  `json:"model"`           // file
	Architecture  string  `json:"architecture"`    // general.architecture
	Result        string  `json:"result"`          // identical or different
	Difference    string  `json:"difference"`      // the first one
	Runs          int     `json:"runs"`            // that were compared with a resident one
	Logits        int64   `json:"logits"`          // compared
	Layers        int     `json:"streamed_layers"` // 0 when nothing was streamed
	Experts       int     `json:"experts"`         // of a streamed layer
	NodesPerLayer float64 `json:"nodes_per_layer"` // 1 when every layer is one fused node
	Resizes       int     `json:"resizes"`         // changes of the number of slots
}

// report sums up what was compared; diff is nil when all was identical.
func (v *verifier) report(arch string, diff *difference) verifyReport {
	r := verifyReport{
		Model: v.opts.path, Architecture: arch, Result: "identical", Runs: v.runs, Logits: v.compared,
		Layers: v.layers, Experts: v.experts, Resizes: v.resizes,
	}
	if v.steps > 0 {
		r.NodesPerLayer = float64(v.nodes) / float64(v.steps)
	}
	if diff != nil {
		r.Result, r.Difference = "different", diff.Error()
	}
	return r
}

// streamed says what was streamed, for people.
func (r verifyReport) streamed() string {
	switch {
	case r.Layers == 0:
		return "resident runs with each other, nothing was streamed"
	case r.NodesPerLayer == 1:
		return fmt.Sprintf("%d layers of %d experts streamed, fused", r.Layers, r.Experts)
	}
	return fmt.Sprintf("%d layers of %d experts streamed, %.2f nodes a layer", r.Layers, r.Experts, r.NodesPerLayer)
}

// difference is the first logit that is not the same.
type difference struct {
	run                       string
	position, sequence, token int
	resident, streamed        float32
}

func (d *difference) Error() string {
	return fmt.Sprintf("%s: position %d of sequence %d, token %d: resident %g (%#08x), streamed %g (%#08x)",
		d.run, d.position, d.sequence, d.token,
		d.resident, math.Float32bits(d.resident), d.streamed, math.Float32bits(d.streamed))
}

// reference is the file with the resident logits of a shape.
func (v *verifier) reference(shape feedShape) string {
	return filepath.Join(v.dir, fmt.Sprintf("%d-%d-%d", shape.threads, shape.ubatch, shape.prompt))
}

// record runs every shape with everything resident.
func (v *verifier) record(ctx context.Context) error {
	for _, shape := range v.opts.shapes {
		if err := v.recordShape(ctx, shape); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) recordShape(ctx context.Context, shape feedShape) error {
	s, err := v.open(ctx, shape, lesOptions{mode: lesOff})
	if err != nil {
		return err
	}
	defer s.Close()
	file, err := os.Create(v.reference(shape))
	if err != nil {
		return err
	}
	defer file.Close()
	out := bufio.NewWriterSize(file, 1<<20)
	err = feedAll(ctx, s, shape, v.opts.seed, func(_, _ int, logits []float32) error {
		_, err := out.Write(logitBytes(logits))
		return err
	})
	if err != nil {
		return fmt.Errorf("resident run: %w", err)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return file.Close()
}

// compareAll runs every streamed configuration of every shape.
func (v *verifier) compareAll(ctx context.Context) error {
	for _, shape := range v.opts.shapes {
		for _, slots := range v.opts.slots {
			for _, lookahead := range v.opts.lookaheads {
				les := lesOptions{mode: lesOn, slots: slots, lookahead: lookahead, readDelay: v.opts.readDelay}
				if slots == slotsResident {
					les = lesOptions{mode: lesOff}
				}
				if err := v.compare(ctx, shape, les); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// compare feeds one streamed configuration and checks each logit as it comes.
func (v *verifier) compare(ctx context.Context, shape feedShape, les lesOptions) error {
	name := fmt.Sprintf("%v, resident again", shape)
	if les.mode == lesOn {
		name = fmt.Sprintf("%v, slots %s, lookahead %d", shape, slotsName(les.slots), les.lookahead)
	}
	s, err := v.open(ctx, shape, les)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer s.Close()
	if les.mode == lesOn && s.reason != "" {
		return v.nothing(s.reason)
	}
	file, err := os.Open(v.reference(shape))
	if err != nil {
		return err
	}
	defer file.Close()
	reference := bufio.NewReaderSize(file, 1<<20)
	expected := make([]float32, s.model.VocabSize())
	count := int64(0)
	resizing := startResizing(s, v.opts)
	err = feedAll(ctx, s, shape, v.opts.seed, func(position, sequence int, logits []float32) error {
		if _, err := io.ReadFull(reference, logitBytes(expected)); err != nil {
			return err
		}
		count += int64(len(logits))
		token, same := sameBits(expected, logits)
		if same {
			return nil
		}
		return &difference{name, position, sequence, token, expected[token], logits[token]}
	})
	resizes, resizeErr := resizing.stop()
	if err = errors.Join(err, resizeErr); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	v.resizes += resizes
	v.note(s, les, count)
	note := ""
	if resizes > 0 {
		note = fmt.Sprintf("; %d changes of the number of slots", resizes)
	}
	fmt.Fprintf(v.out, "%s: identical, %d logits%s\n", name, count, note)
	return nil
}

// note counts a run that was identical.
func (v *verifier) note(s *session, les lesOptions, count int64) {
	v.compared += count
	v.runs++
	if les.mode == lesOn {
		plan, stats := s.engine.Plan(), s.stats()
		v.layers, v.experts = plan.Layers, plan.Experts
		v.nodes += stats.Nodes
		v.steps += stats.total().Steps
	}
}

// streams says whether any run is to be streamed.
func (v *verifier) streams() bool {
	return slices.ContainsFunc(v.opts.slots, func(slots int) bool { return slots != slotsResident })
}

// nothing is the error of a model of which nothing is streamed: what would be compared
// is a resident run with itself.
func (v *verifier) nothing(reason string) error {
	return fmt.Errorf("%s: there is nothing to verify: %s; --les-slots resident compares resident runs with each other", v.opts.path, reason)
}

// sameBits compares as bit patterns, so that NaNs count too, and returns the
// first index that differs.
func sameBits(a, b []float32) (int, bool) {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return i, false
		}
	}
	return 0, true
}

// logitBytes is the memory of a slice of logits.
func logitBytes(logits []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(logits))), 4*len(logits))
}
