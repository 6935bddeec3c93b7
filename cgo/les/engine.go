package les

/*
#include "bridge.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/cgo"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/trace"
)

// Config says how a sealed model is streamed. The zero value streams at the
// floor without lookahead.
type Config struct {
	Usage         plan.Usage // of the context that will decode; Process is measured, and at least this
	Budget        int64      // for the whole process in bytes, used when SlotsPerLayer is negative
	SlotsPerLayer int        // slots above the floor, per layer; negative: from the budget
	Lookahead     bool       // guess and read the next layer's experts
	Lanes         int        // reads in flight, 0 for sched.LanesDefault; Open raises GOMAXPROCS to two more, for good
	// WholeLayers computes a layer only when all its experts are in memory,
	// instead of each as it comes: what ready-first is measured against.
	WholeLayers bool
	// ReadDelay holds each read back by a random time up to this, in tests.
	ReadDelay time.Duration
	// Reader, if set, wraps the reader of the files: faults in tests.
	Reader func(readq.Reader) readq.Reader
	// Routes, if set, buffers routed sets and guesses. Drain it between steps.
	Routes *trace.Routes
	// Logf receives single lines, such as the fall back to buffered reads.
	Logf func(format string, args ...any)
}

// Engine streams the experts of one model.
type Engine struct {
	streamed *Streamed
	usage    plan.Usage // what the plan is made of
	files    *readq.Files
	sched    *sched.Scheduler
	handle   cgo.Handle
	capacity int // slots that the arena has addresses for

	plan atomic.Pointer[plan.Plan] // stored by Open and, with the lock held, by resize
	// The lock of arena is a turn: one change of size at a time, none during and after
	// Close. It is the one lock here that is held across calls into C and waits, since
	// what it keeps apart are those calls, which give memory to slots and take it away.
	// Nothing that computes, reads or schedules ever takes it, so that all that the
	// holder waits for goes on: layers in progress, reads in flight, a step of populating.
	arena struct {
		sync.Mutex
		closed     bool
		populating *populator // of the slots there are
	}

	// Stored by compute thread 0, loaded by Stats.
	callbackNS, callbacks atomic.Int64
}

// Open plans memory, allocates the slots and starts the read pool. The context
// must exist and must not have decoded.
func (s *Streamed) Open(config Config) (_ *Engine, err error) {
	if len(s.geometry.Layers) == 0 {
		return nil, ErrNothingStreamed
	}
	e := &Engine{streamed: s, usage: measured(config.Usage)}
	planned, err := plan.Make(plan.ShapeOf(s.geometry), e.usage, plan.Request{Budget: config.Budget, SlotsPerLayer: config.SlotsPerLayer})
	if err != nil {
		return nil, err
	}
	e.plan.Store(&planned)
	if e.files, err = readq.OpenFiles(s.geometry.Files, readq.FilesOptions{Logf: config.Logf}); err != nil {
		return nil, err
	}
	if err = s.geometry.CheckSizes(e.files.Sizes()); err != nil {
		return nil, errors.Join(err, e.files.Close())
	}
	e.handle = cgo.NewHandle(e)
	if err = e.openArena(planned); err == nil {
		e.sched, err = sched.Open(e.schedConfig(config))
	}
	if err != nil {
		C.les_model_close(s.model)
		e.handle.Delete()
		return nil, errors.Join(err, e.files.Close())
	}
	C.les_model_ref(s.model)
	C.les_model_set_ready_first(s.model, C.bool(!config.WholeLayers))
	e.arena.populating = populate(s.model, planned.Slots)
	e.setLookahead(config.Lookahead)
	reserveProcessors(config.Lanes)
	e.Warm(nil)
	return e, nil
}

// openArena has memory for the slots of the plan, and addresses for all experts
// or, where the system does not have so many, for these slots.
func (e *Engine) openArena(planned plan.Plan) (err error) {
	model := e.streamed.model
	for _, e.capacity = range []int{planned.All, planned.SlotCount} {
		if C.les_bridge_open(model, C.int32_t(planned.SlotCount), C.int32_t(e.capacity), C.uintptr_t(e.handle)) == 0 {
			return nil
		}
		err = e.streamed.takeError("opening the experts")
	}
	return err
}

// reserveProcessors lets a callback find one of Go's processors free while every
// lane is in a read. With fewer, the Go runtime takes them back from lanes only
// after a while, and looks for such lanes every 20 us; callbacks at the floor
// then took 6 % of a token. It is never lowered again.
func reserveProcessors(lanes int) {
	if lanes == 0 {
		lanes = sched.LanesDefault
	}
	if want := lanes + 2; runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}

func (e *Engine) schedConfig(config Config) sched.Config {
	var reader readq.Reader = e.files
	if config.ReadDelay > 0 {
		reader = delayed{reader, config.ReadDelay}
	}
	if config.Reader != nil {
		reader = config.Reader(reader)
	}
	lookahead := 0
	if config.Lookahead {
		lookahead = e.Plan().Used
	}
	begin := time.Now()
	arena := unsafe.Slice((*byte)(C.les_model_arena(e.streamed.model)), int64(e.capacity)*e.streamed.geometry.SlotBytes)
	return sched.Config{
		Geometry:  e.streamed.geometry,
		Slots:     e.Plan().SlotCount,
		Arena:     arena,
		Reader:    reader,
		Publisher: publisher{e.streamed.model},
		Lanes:     config.Lanes,
		Lookahead: lookahead,
		Tune:      config.Lookahead,
		Now:       func() int64 { return int64(time.Since(begin)) },
		OnFail:    e.fail,
		// With every guess cut off, or nothing left to read, the next router is not even asked.
		OnLookahead: e.setLookahead,
		Routes:      config.Routes,
	}
}

// setLookahead tells C how many guesses a token each layer wants.
func (e *Engine) setLookahead(on bool) {
	for i, layer := range e.streamed.geometry.Layers {
		guesses := 0
		if on {
			guesses = layer.Used
		}
		C.les_model_set_lookahead(e.streamed.model, C.int32_t(i), C.int32_t(guesses))
	}
}

// WaitPopulated waits until the system has put memory behind all slots. Steps
// may run before; they are slower while it works.
func (e *Engine) WaitPopulated() {
	e.arena.Lock()
	populating := e.arena.populating
	e.arena.Unlock()
	<-populating.done
}

// Plan is what Open decided, or the last change of size since.
func (e *Engine) Plan() plan.Plan { return *e.plan.Load() }

// Err takes the error that failed the last step, or returns nil.
func (e *Engine) Err() error {
	if text := C.GoString(C.les_model_take_error(e.streamed.model)); text != "" {
		return errors.New(text)
	}
	return nil
}

func (e *Engine) fail(err error) {
	withCString(err.Error(), func(text *C.char) { C.les_model_set_error(e.streamed.model, text) })
}

// Stats are the scheduler's counters and the time compute threads spent.
type Stats struct {
	sched.Stats
	Stall         time.Duration // waiting for bytes, mean over compute threads
	Predict       time.Duration // in the lookahead, on compute thread 0
	Nodes         time.Duration // in MoE nodes, on compute thread 0, stalls included
	Callback      time.Duration // in routed, predicted and released, on compute thread 0
	Callbacks     int64         // their number
	NodesComputed int64         // one for a layer and step where the layer is fused, else one for each projection
}

// Stats returns the counters since the engine was opened or reset.
func (e *Engine) Stats() Stats {
	c := C.les_model_counters(e.streamed.model)
	return Stats{
		Stats:         e.sched.Stats(),
		Stall:         time.Duration(c.stall_ns) / time.Duration(max(1, int(c.n_threads))),
		Predict:       time.Duration(c.predict_ns),
		Nodes:         time.Duration(c.node_ns),
		Callback:      time.Duration(e.callbackNS.Load()),
		Callbacks:     e.callbacks.Load(),
		NodesComputed: int64(c.n_nodes),
	}
}

// ResetStats starts all counters anew.
func (e *Engine) ResetStats() {
	C.les_model_reset_counters(e.streamed.model)
	e.callbackNS.Store(0)
	e.callbacks.Store(0)
	e.sched.ResetStats()
}

// Close stops the read pool. No step may be running; steps after it fail. The
// model is freed by its owner.
func (e *Engine) Close() error {
	if e.sched == nil {
		return nil
	}
	C.les_model_close(e.streamed.model)
	err := e.sched.Close() // first: a change of size may wait for it
	e.arena.Lock()
	e.arena.closed = true
	e.arena.populating.stop()
	e.arena.Unlock()
	err = errors.Join(err, e.files.Close())
	e.sched = nil
	e.handle.Delete()
	C.les_model_unref(e.streamed.model)
	if err != nil {
		return fmt.Errorf("closing the experts: %w", err)
	}
	return nil
}

// publisher stores words where compute threads look.
type publisher struct{ model *C.struct_les_model }

func (p publisher) Publish(layer, id int, word uint32) {
	C.les_model_publish(p.model, C.int32_t(layer), C.int32_t(id), C.uint32_t(word))
}

// delayed holds reads back at random, so that tests see every order of
// arrival.
type delayed struct {
	readq.Reader
	most time.Duration
}

func (d delayed) ReadExtent(want expert.Extent, buf []byte) error {
	time.Sleep(rand.N(d.most))
	return d.Reader.ReadExtent(want, buf)
}
