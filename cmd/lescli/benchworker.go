package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

// benchWorkerName is the command that bench starts for each arm.
const benchWorkerName = "bench-worker"

// benchWorkerCommand measures what its standard input asks for, one JSON
// request a line, and answers each with one line. The end of the input ends
// it, also in the middle of a sample: a worker does not outlive its parent.
func benchWorkerCommand() *cli.Command {
	return &cli.Command{
		Name: benchWorkerName, Hidden: true,
		Usage:  "measure one arm of bench; started by bench, which writes requests to standard input",
		Action: runBenchWorker,
	}
}

// workerRequest has one of its fields set.
type workerRequest struct {
	Open   *benchSettings // load the model
	Sample *benchTurn     // measure a turn
	Record *int           // draw the answer to the prompt of this round
	Probe  *probeSettings // measure the flash, without a model
}

// workerReply answers a request.
type workerReply struct {
	Opened      *benchOpened
	Sample      *benchSample
	Recorded    []llama.Token
	Probe       *probeResult
	Error       string // empty when all is well
	Interrupted bool   // the error is that the worker was told to stop
}

func runBenchWorker(c *cli.Context) (err error) {
	if err := noArguments(c); err != nil {
		return err
	}
	// These reach the parent too, which ends this process in its own time.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	ctx, stop := context.WithCancel(c.Context)
	defer stop()
	w := &benchWorker{ctx: ctx, log: c.App.ErrWriter}
	defer func() { err = errors.Join(err, w.close()) }()
	replies := json.NewEncoder(c.App.Writer)
	for line := range requestLines(c.App.Reader, stop) {
		if err := replies.Encode(w.answer(line)); err != nil {
			return err
		}
	}
	return nil
}

// requestLines gives the lines of the input, and calls stop at its end.
func requestLines(in io.Reader, stop func()) <-chan []byte {
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		defer stop()
		for buf := bufio.NewReader(in); ; {
			line, err := buf.ReadBytes('\n')
			if err != nil {
				return
			}
			lines <- line
		}
	}()
	return lines
}

// benchWorker holds the model between requests.
type benchWorker struct {
	ctx   context.Context
	log   io.Writer
	bench *benchmark
}

func (w *benchWorker) close() error {
	if w.bench == nil {
		return nil
	}
	return w.bench.close()
}

func (w *benchWorker) answer(line []byte) (reply workerReply) {
	var request workerRequest
	err := json.Unmarshal(line, &request)
	if err == nil {
		reply, err = w.do(request)
	}
	if err != nil {
		return workerReply{Error: err.Error(), Interrupted: isInterruption(err)}
	}
	return reply
}

func (w *benchWorker) do(request workerRequest) (reply workerReply, err error) {
	switch {
	case request.Open != nil:
		if err = w.close(); err != nil {
			return reply, err
		}
		w.bench = &benchmark{ctx: w.ctx, log: w.log, settings: *request.Open}
		var opened benchOpened
		opened, err = w.bench.open()
		reply.Opened = &opened
	case request.Sample != nil && w.bench != nil:
		var sample benchSample
		sample, err = w.bench.sample(*request.Sample)
		reply.Sample = &sample
	case request.Record != nil && w.bench != nil:
		reply.Recorded, err = w.bench.record(*request.Record)
	case request.Probe != nil:
		var result probeResult
		result, err = request.Probe.run(w.ctx, w.log)
		reply.Probe = &result
	default:
		err = errors.New("a request asks for nothing that can be done")
	}
	return reply, err
}
