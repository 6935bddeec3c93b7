package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// output is standard output. Commands print to it without a look at errors: the first
// one is kept for the end of the program, and nothing is written after it.
type output struct {
	out    io.Writer
	caught *caughtSignal
	err    error
}

// Write takes a reader that has gone away for the signal which the system has for that:
// nobody is left to tell, and the work ends as with any other signal.
func (o *output) Write(p []byte) (n int, err error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err = o.out.Write(p)
	switch {
	case errors.Is(err, syscall.EPIPE):
		o.caught.number.CompareAndSwap(0, int32(syscall.SIGPIPE))
		o.err = silentError{context.Canceled}
	case err != nil:
		o.err = fmt.Errorf("standard output: %w", err)
	}
	return n, o.err
}

// result adds that something could not be printed to how a command ended.
func (o *output) result(err error) error {
	if o.err == nil || errors.Is(err, o.err) {
		return err
	}
	return errors.Join(err, o.err)
}
