package llama

/*
#include "log.h"
#include "llama.h"
*/
import "C"

import (
	"strings"
	"sync"
)

// Level is the severity of a log line.
type Level int

// Levels as ggml has them. A continued line is given the level of its start.
const (
	LevelDebug Level = C.GGML_LOG_LEVEL_DEBUG
	LevelInfo  Level = C.GGML_LOG_LEVEL_INFO
	LevelWarn  Level = C.GGML_LOG_LEVEL_WARN
	LevelError Level = C.GGML_LOG_LEVEL_ERROR

	levelContinued Level = C.GGML_LOG_LEVEL_CONT
)

// errorLinesMax bounds the error lines kept for one failed call; the first
// ones name the cause, so later ones are dropped.
const errorLinesMax = 8

// logs receives everything llama.cpp prints. Its mutex guards the fields; the
// sink is called without it.
var logs struct {
	sync.Mutex
	sink   func(Level, string)
	last   Level
	errors []string
}

var initOnce sync.Once

// Init prepares the library. It must be called before anything else and may
// be called more than once.
func Init() {
	initOnce.Do(func() {
		C.les_llama_log_install()
		C.llama_backend_init()
		// Where kernels are libraries of their own, none is there yet: the best for this processor is opened.
		if C.ggml_backend_reg_count() == 0 {
			C.ggml_backend_load_all()
		}
	})
}

// SetLog sends every log line, without its newline, to sink; nil drops them.
// The sink may be called from any thread.
func SetLog(sink func(level Level, line string)) {
	logs.Lock()
	defer logs.Unlock()
	logs.sink = sink
}

//export lesLlamaLog
func lesLlamaLog(level C.int, text *C.char) {
	line := strings.TrimRight(C.GoString(text), "\n")
	logs.Lock()
	severity := Level(level)
	if severity == levelContinued {
		severity = logs.last
	}
	logs.last = severity
	if severity == LevelError && line != "" && len(logs.errors) < errorLinesMax {
		logs.errors = append(logs.errors, line)
	}
	sink := logs.sink
	logs.Unlock()
	if sink != nil && line != "" {
		sink(severity, line)
	}
}

// errorsDuring runs fn and returns the error lines logged meanwhile, joined.
// Calls must not overlap; fallback is returned when nothing was logged.
func errorsDuring(fallback string, fn func()) string {
	logs.Lock()
	logs.errors = nil
	logs.Unlock()
	fn()
	logs.Lock()
	defer logs.Unlock()
	if len(logs.errors) == 0 {
		return fallback
	}
	return strings.Join(logs.errors, "; ")
}
