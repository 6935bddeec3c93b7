package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/les-project/les/cgo/llama"
)

// workerProcess is a process of this program that answers requests, within
// limits of the kernel if there are any.
type workerProcess struct {
	ctx     context.Context
	command *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	log     *tailWriter
	group   *controlGroup // nil without limits
	ended   bool          // and waited for
}

// startWorker starts a process that waits for requests.
func startWorker(ctx context.Context, limits kernelLimits, log io.Writer) (*workerProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &workerProcess{ctx: ctx, log: &tailWriter{out: log}}
	if p.group, err = limits.enter(); err != nil {
		return nil, err
	}
	p.command = groupCommand(ctx, p.group, program, benchWorkerName)
	p.command.Stderr = p.log
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, errors.Join(err, p.group.remove())
	}
	out, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		return nil, errors.Join(err, p.group.remove())
	}
	p.out = json.NewDecoder(out)
	return p, nil
}

// groupCommand is a command that runs inside a control group. The shell joins
// the group before it becomes the command, so that all memory is counted. The
// end of the context kills it, and so does the end of this process where the
// system can do that.
func groupCommand(ctx context.Context, group *controlGroup, program string, args ...string) *exec.Cmd {
	if group != nil {
		const join = `n=$1; shift; while [ "$n" -gt 0 ]; do echo $$ >"$1" || exit; shift; n=$((n - 1)); done; exec "$@"`
		line := append([]string{"-c", join, "sh", strconv.Itoa(len(group.dirs))}, group.joinFiles()...)
		program, args = "/bin/sh", append(append(line, program), args...)
	}
	command := exec.CommandContext(ctx, program, args...)
	command.SysProcAttr = dieWithParent()
	command.Cancel = func() error { return errors.Join(group.lift(), command.Process.Kill()) }
	return command
}

// ask sends a request and waits for its answer.
func (p *workerProcess) ask(request workerRequest) (reply workerReply, err error) {
	err = json.NewEncoder(p.in).Encode(request)
	if err == nil {
		err = p.out.Decode(&reply)
	}
	switch {
	case p.ctx.Err() != nil:
		return reply, p.ctx.Err()
	case err != nil:
		return reply, p.died(err)
	case reply.Interrupted:
		return reply, context.Canceled
	case reply.Error != "":
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}

// died says why there is no answer.
func (p *workerProcess) died(cause error) error {
	p.in.Close()
	p.ended = true
	if err := p.command.Wait(); err != nil {
		cause = err
	}
	return processError(cause, p.group, p.log)
}

// processError explains the end of a process: what it printed last, and the
// limit that may have ended it.
func processError(cause error, group *controlGroup, log *tailWriter) error {
	var exit *exec.ExitError
	killed := errors.As(cause, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if killed && group != nil && group.memoryBytes > 0 {
		return fmt.Errorf("the process was killed, most likely because it needs more than --memory %s: %w", formatSize(group.memoryBytes), cause)
	}
	if text := log.last(); text != "" {
		return fmt.Errorf("the process ended early: %w: %s", cause, text)
	}
	return fmt.Errorf("the process ended early: %w", cause)
}

// close ends the process and removes its control group.
func (p *workerProcess) close() error {
	if p.ended {
		return p.group.remove()
	}
	p.in.Close()
	err := p.command.Wait()
	switch {
	case p.ctx.Err() != nil:
		err = nil // it was killed
	case err != nil:
		err = processError(err, p.group, p.log)
	}
	return errors.Join(err, p.group.remove())
}

// tailWriter passes on what a process prints and keeps its end.
type tailWriter struct {
	out  io.Writer // nil passes nothing on
	tail []byte
}

// tailBytes is enough for the message with which a program ends.
const tailBytes = 2000

func (t *tailWriter) Write(p []byte) (int, error) {
	t.tail = append(t.tail, p...)
	t.tail = t.tail[max(0, len(t.tail)-tailBytes):]
	if t.out != nil {
		return t.out.Write(p)
	}
	return len(p), nil
}

// last is the last line that was printed.
func (t *tailWriter) last() string {
	lines := strings.Split(string(bytes.TrimSpace(t.tail)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// processSource samples one arm in a process of its own.
type processSource struct {
	ctx     context.Context
	arm     benchArm
	log     io.Writer
	process *workerProcess // nil while there is none
	opened  benchOpened
}

func (s *processSource) open() (benchOpened, error) {
	if s.process != nil {
		return s.opened, nil
	}
	process, err := startWorker(s.ctx, s.arm.limits(), s.log)
	if err != nil {
		return benchOpened{}, err
	}
	s.process = process
	reply, err := process.ask(workerRequest{Open: &s.arm.benchSettings})
	if err != nil {
		return benchOpened{}, err
	}
	s.opened = *reply.Opened
	return s.opened, nil
}

func (s *processSource) sample(turn benchTurn) (benchSample, error) {
	reply, err := s.process.ask(workerRequest{Sample: &turn})
	if err != nil {
		return benchSample{}, err
	}
	reply.Sample.PeakGroupBytes = s.process.group.peakBytes()
	return *reply.Sample, nil
}

func (s *processSource) record(round int) ([]llama.Token, error) {
	reply, err := s.process.ask(workerRequest{Record: &round})
	return reply.Recorded, err
}

func (s *processSource) close() error {
	if s.process == nil {
		return nil
	}
	process := s.process
	s.process = nil
	return process.close()
}
