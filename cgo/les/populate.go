package les

/*
#include "les.h"
*/
import "C"

import (
	"runtime"
	"sync/atomic"
)

// populateStep is how much is populated between two looks at whether to stop:
// about 10 ms of clearing pages.
const populateStep = 32 << 20

// populator touches the arena beside the first steps. Without it every first
// use of a slot waits for the system to clear its pages, which took a quarter
// of the time of the first 30 tokens of a 15 GB model.
type populator struct {
	stopping atomic.Bool   // stored by stop, loaded by the goroutine
	done     chan struct{} // closed when the goroutine ends
}

// populate starts a goroutine that ends when the arena is populated or stop is
// called.
func populate(model *C.struct_les_model, bytes int64) *populator {
	p := &populator{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		// The thread is given up with the goroutine, its priority with it.
		runtime.LockOSThread()
		yieldThread()
		for off := int64(0); off < bytes && !p.stopping.Load(); off += populateStep {
			C.les_model_populate(model, C.uint64_t(off), C.uint64_t(min(populateStep, bytes-off)))
		}
	}()
	return p
}

// stop ends the goroutine and waits for it.
func (p *populator) stop() {
	p.stopping.Store(true)
	<-p.done
}
