package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/system"
)

// stockLoadRead is the load mode of llama-bench that reads everything into
// memory.
const stockLoadRead = "none"

// stockLoads are the load modes that an arm may have.
var stockLoads = []string{"mmap", stockLoadRead}

// stockOptions are the flags about an unpatched llama-bench.
type stockOptions struct {
	program string // empty without such arms
	loads   []string
	decode  int // tokens, 0 for as many as the other arms
}

// arms adds one arm for each load mode and shape of the other arms.
func (o stockOptions) arms(others []benchArm) []benchArm {
	arms := others
	for _, other := range others {
		for _, load := range o.loads {
			arm := benchArm{stockLoad: load, benchSettings: benchSettings{
				Model: other.Model, Threads: other.Threads, Ubatch: other.Ubatch, Prompt: other.Prompt, Decode: other.Decode,
				Slots: slotsFromBudget,
			}}
			if !arm.resident() {
				arm.bandwidthBytes = other.bandwidthBytes
			}
			if o.decode > 0 && arm.Decode > 0 {
				arm.Decode = o.decode
			}
			arm.name = o.name(arm)
			if !slices.Contains(arms, arm) {
				arms = append(arms, arm)
			}
		}
	}
	return arms
}

// name has what tells the arm from others of its kind.
func (o stockOptions) name(arm benchArm) string {
	name := "llama-bench " + arm.stockLoad
	if arm.Prompt > 0 {
		name += fmt.Sprintf(", prompt %d", arm.Prompt)
	}
	if arm.bandwidthBytes > 0 {
		name += fmt.Sprintf(", %s/s", formatSize(arm.bandwidthBytes))
	}
	return name
}

// stockSource samples an unpatched llama-bench, one process a sample.
type stockSource struct {
	ctx     context.Context
	program string
	arm     benchArm
	log     io.Writer
}

func (s *stockSource) open() (benchOpened, error) {
	return benchOpened{Threads: s.arm.Threads, Ubatch: s.arm.Ubatch, Reason: "llama-bench, load mode " + s.arm.stockLoad}, nil
}

func (s *stockSource) close() error { return nil }

// record is not asked for: drafts are not compared with llama-bench.
func (s *stockSource) record(int) ([]llama.Token, error) { return nil, nil }

func (s *stockSource) sample(turn benchTurn) (sample benchSample, err error) {
	group, err := s.arm.limits().enter()
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, group.remove()) }()
	command := groupCommand(s.ctx, group, s.program, "-m", s.arm.Model, "-lm", s.arm.stockLoad, "-t", strconv.Itoa(s.arm.Threads),
		"-ub", strconv.Itoa(s.arm.Ubatch), "-b", strconv.Itoa(max(s.arm.Ubatch, 1)),
		"-p", strconv.Itoa(s.arm.Prompt), "-n", strconv.Itoa(s.arm.Decode), "-r", "1", "-o", "json")
	var out bytes.Buffer
	log := &tailWriter{out: s.log}
	command.Stdout, command.Stderr = &out, log
	if err = command.Run(); err != nil {
		if s.ctx.Err() != nil {
			return sample, s.ctx.Err()
		}
		return sample, fmt.Errorf("%s: %w", strings.Join(command.Args, " "), processError(err, group, log))
	}
	sample, err = parseStock(out.Bytes())
	sample.Round, sample.PeakGroupBytes = turn.Round, group.peakBytes()
	sample.PeakRSSBytes = system.UsageOf(command.ProcessState).PeakBytes
	return sample, err
}

// parseStock reads the JSON of llama-bench: one test for the prompt and one
// for the tokens after it.
func parseStock(text []byte) (sample benchSample, err error) {
	var tests []struct {
		Prompt int     `json:"n_prompt"`
		Gen    int     `json:"n_gen"`
		Speed  float64 `json:"avg_ts"`
	}
	if err := json.Unmarshal(text, &tests); err != nil {
		return sample, fmt.Errorf("the report of llama-bench: %w", err)
	}
	for _, test := range tests {
		if test.Speed <= 0 {
			return sample, fmt.Errorf("the report of llama-bench has a speed of %v", test.Speed)
		}
		phase := benchPhase{Tokens: test.Prompt + test.Gen, Seconds: float64(test.Prompt+test.Gen) / test.Speed}
		if test.Gen > 0 {
			sample.Decode = phase
		} else {
			sample.Prefill = phase
		}
	}
	if len(tests) == 0 {
		return sample, errors.New("the report of llama-bench has no tests")
	}
	return sample, nil
}
