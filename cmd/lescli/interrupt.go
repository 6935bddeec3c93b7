package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/les-project/les/cgo/llama"
)

// caughtSignal is the signal that ended the work of a command, 0 for none. The
// goroutine that waits for it stores, the end of the program loads.
type caughtSignal struct{ number atomic.Int32 }

type caughtKey struct{}

// withCaught gives the contexts of commands a place for the signal that ends them.
func withCaught(ctx context.Context) (context.Context, *caughtSignal) {
	caught := &caughtSignal{}
	return context.WithValue(ctx, caughtKey{}, caught), caught
}

// exitCode is what shells and llama.cpp's programs say of one who ends for a
// signal, although it was caught and all that is kept was written: a script can
// tell a whole answer from one that was cut short.
func (s *caughtSignal) exitCode() int {
	if n := s.number.Load(); n != 0 {
		return 128 + int(n)
	}
	return exitError
}

// interruptible ends the context with the signals that ask a program to stop, or say
// that nobody reads its output, so that it removes what it has not finished. A hangup
// stays ignored under nohup. Once the second function was called, signals do what they
// do by default: a second SIGQUIT shows what each goroutine does.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, cancel := context.WithCancel(ctx)
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		select {
		case s := <-came:
			note(ctx, s)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(came)
		cancel()
	}
}

// note remembers the signal for the exit code.
func note(ctx context.Context, s os.Signal) {
	number, isNumber := s.(syscall.Signal)
	if caught, ok := ctx.Value(caughtKey{}).(*caughtSignal); ok && isNumber {
		caught.number.Store(int32(number))
	}
}

// isInterruption reports whether work ended because its context did.
func isInterruption(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, llama.ErrCancelled)
}

// besideInterruption lists what went wrong besides.
func besideInterruption(err error) []error {
	if !isInterruption(err) {
		return []error{err}
	}
	switch err := err.(type) {
	case interface{ Unwrap() error }:
		if inner := err.Unwrap(); inner != nil {
			return besideInterruption(inner)
		}
	case interface{ Unwrap() []error }:
		var others []error
		for _, inner := range err.Unwrap() {
			others = append(others, besideInterruption(inner)...)
		}
		return others
	}
	return nil
}
