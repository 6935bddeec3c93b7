package host

/*
#include "les-host.h"
*/
import "C"

import (
	"fmt"
	"sync"
)

// journal keeps lines of the program's log while the lock of a model is held:
// whoever writes the log may ask for plan and counters, which want the lock.
type journal struct {
	mu    sync.Mutex // guards what follows
	held  bool
	lines []line
}

type line struct {
	level C.int32_t
	text  string
}

func (l line) write() { withCString(l.text, func(text *C.char) { C.les_host_log(l.level, text) }) }

func (j *journal) printf(level C.int32_t, format string, args ...any) {
	l := line{level, fmt.Sprintf(format, args...)}
	if !j.keep(l) {
		l.write()
	}
}

// keep reports whether the line has to wait.
func (j *journal) keep(l line) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held {
		j.lines = append(j.lines, l)
	}
	return j.held
}

func (j *journal) hold() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = true
}

// release returns what was kept, to be written when the lock is free.
func (j *journal) release() []line {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.held, j.lines = false, nil
	return lines
}
