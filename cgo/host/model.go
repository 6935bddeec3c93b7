package host

/*
#include "les-host.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"sync"
	"unsafe"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cgo/verify"
	"github.com/les-project/les/lesext/outfile"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/sched"
)

// options are what a load was asked to do.
type options struct {
	budgetBytes int64 // 0 when not given
	slots       int   // C.LES_SLOTS_FROM_BUDGET or C.LES_SLOTS_ALL when not a number
	lookahead   int
	lanes       int
	warm        string
	auto        bool // nobody has asked for it
}

func optionsOf(o *C.struct_les_options) options {
	return options{
		budgetBytes: int64(o.budget), slots: int(o.slots), lookahead: int(o.lookahead), lanes: int(o.lanes),
		warm: C.GoString(&o.warm[0]), auto: o.mode == C.LES_MODE_AUTO,
	}
}

// why begins the line of the plan where nobody has asked for one.
func (o options) why() string {
	if o.auto {
		return "on, as the model does not fit the memory there is (LES=off switches it off): "
	}
	return ""
}

// model is one that the program has loaded and that is streamed.
type model struct {
	options   options
	available int64 // memory there was before the load
	streamed  *les.Streamed
	counts    Counts
	name      string  // of its file
	member    *member // nil before the load has ended
	log       journal

	// alive is held for writing while engine changes, together with mu; who has either
	// may use the engine. Whoever only looks takes alive, and so does not wait for a
	// change of size, which waits for the layers in progress.
	alive  sync.RWMutex
	mu     sync.Mutex  // contexts may be made by several threads; guards what follows
	engine *les.Engine // nil before the first context
	asked  plan.Plan   // of the load, or of the last change of budget or slots
	warm   *Warmth     // nil without a warm file
	guard  *guard      // nil before the first context

	level       int      // of memory pressure, none after a change of budget or slots
	outgrown    outgrown // since somebody last changed the pool
	outgrewTold bool
}

var errNoContext = errors.New("the model has no context yet, so there is no plan")

// newModel offers a model to the load that begins.
func newModel(o options) (*model, error) {
	m := &model{options: o, available: les.MemoryAvailable()}
	var err error
	if o.warm != "" {
		if m.options.warm, err = outfile.CheckReplaceable(o.warm, WarmKind); err != nil {
			return nil, fmt.Errorf("warm: %w", err)
		}
	}
	m.streamed, err = les.Prepare()
	return m, err
}

// loaded ends the load of a model in these files, none where it has failed, with so
// many bytes of weights in memory. It reports whether anything is streamed.
func (m *model) loaded(paths []string, weights int64) (bool, error) {
	if len(paths) == 0 {
		return false, nil
	}
	first, err := llama.OpenFile(paths[0])
	if err != nil {
		return false, err
	}
	defer first.Close()
	if m.counts, err = ReadCounts(first); err != nil {
		return false, err
	}
	m.name = filepath.Base(paths[0])
	err = m.streamed.Seal(paths, m.counts.Used)
	if errors.Is(err, les.ErrNothingStreamed) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m.member = others.join(paths[0], weights)
	m.member.self = m
	return true, nil
}

// context opens the engine at the first context, and has further ones counted.
func (m *model) context(pointer unsafe.Pointer) error {
	lctx := llama.BorrowContext(pointer)
	memory, work := lctx.Memory(), m.counts.WorkBytes(lctx.Ubatch())
	err := m.begin(memory, work)
	if err == nil {
		others.seat(uintptr(pointer), seat{m.member, contextBytes(memory, work)})
	}
	return err
}

// begin opens the engine, if it is not open.
func (m *model) begin(memory llama.Memory, work int64) error {
	defer m.lock()()
	if m.engine != nil {
		return nil
	}
	config, err := m.config(memory, work)
	if err != nil {
		return err
	}
	if err = m.open(config); err != nil {
		return err
	}
	beginDrafts(verify.Experts{All: plan.ShapeOf(m.streamed.Geometry()).Experts, Used: m.counts.Used})
	m.asked = m.engine.Plan()
	// A warning is what llama.cpp's programs show without being asked to say more.
	m.log.printf(levelWarn, "%s%s", m.options.why(), describe(m.asked))
	m.guard = startGuard(m)
	return m.startWarm()
}

// open opens the engine, in its turn.
func (m *model) open(config les.Config) error {
	others.opening.Lock()
	defer others.opening.Unlock()
	undo, err := m.follow(&config)
	if err != nil {
		return err
	}
	engine, err := m.streamed.Open(config)
	if err != nil {
		undo()
		return err
	}
	m.setEngine(engine)
	others.add(m)
	others.planned(m.member, config.Usage.KV+config.Usage.Compute+config.Usage.Work)
	return nil
}

func (m *model) setEngine(engine *les.Engine) {
	m.alive.Lock()
	defer m.alive.Unlock()
	m.engine = engine
}

// startWarm reads ahead what the warm file names, if there is one.
func (m *model) startWarm() (err error) {
	if m.options.warm == "" {
		return nil
	}
	engine := struct {
		*les.Engine
		*les.Streamed
	}{m.engine, m.streamed}
	m.warm, err = StartWarm(m.options.warm, m.asked.SlotCount, engine, func(err error) {
		m.log.printf(levelWarn, "%s is ignored, and replaced at the end: %v", m.options.warm, err)
	})
	return err
}

func (m *model) config(memory llama.Memory, work int64) (les.Config, error) {
	config := les.Config{
		Usage:         plan.Usage{Dense: memory.ModelBytes, KV: memory.ContextBytes, Compute: memory.ComputeBytes, Work: work},
		Budget:        m.options.budgetBytes,
		SlotsPerLayer: m.options.slots,
		Lookahead:     m.options.lookahead > 0,
		Lanes:         m.options.lanes,
		Logf:          func(format string, args ...any) { m.log.printf(levelWarn, format, args...) },
	}
	if config.SlotsPerLayer == C.LES_SLOTS_ALL {
		config.SlotsPerLayer = plan.ShapeOf(m.streamed.Geometry()).Experts
	}
	if config.SlotsPerLayer >= 0 || config.Budget > 0 {
		return config, nil
	}
	if m.available == 0 {
		return config, errors.New("no budget is given, and the system does not tell how much memory there is")
	}
	config.Budget = les.BudgetOf(m.available)
	return config, nil
}

// describe says in one line where the memory goes.
func describe(p plan.Plan) string {
	text := fmt.Sprintf("%d expert slots for %d experts in %d layers; dense %s + kv %s + compute %s + process %s + slots %s = %s",
		p.SlotCount, p.All, p.Layers, mib(p.Dense), mib(p.KV), mib(p.Compute+p.Work), mib(p.Process), mib(p.Slots), mib(p.Total))
	if p.Budget > 0 {
		text += " of " + mib(p.Budget)
	}
	return text
}

func mib(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }

// lock returns what unlocks. Lines of the log wait for it.
func (m *model) lock() (unlock func()) {
	m.mu.Lock()
	m.log.hold()
	return func() {
		lines := m.log.release()
		m.mu.Unlock()
		for _, l := range lines {
			l.write()
		}
	}
}

// use lends the engine, which is not closed meanwhile.
func (m *model) use(fn func(*les.Engine) error) error {
	defer m.lock()()
	if m.engine == nil {
		return errNoContext
	}
	return fn(m.engine)
}

// look lends the engine for its figures, which are there at any time.
func (m *model) look(fn func(*les.Engine)) error {
	m.alive.RLock()
	defer m.alive.RUnlock()
	if m.engine == nil {
		return errNoContext
	}
	fn(m.engine)
	return nil
}

func (m *model) plan() (result C.struct_les_plan, err error) {
	err = m.look(func(e *les.Engine) { result = m.planOf(e.Plan()) })
	return result, err
}

func (m *model) planOf(p plan.Plan) C.struct_les_plan {
	lanes := m.options.lanes
	if lanes == 0 {
		lanes = sched.LanesDefault
	}
	return C.struct_les_plan{
		dense: C.int64_t(p.Dense), kv: C.int64_t(p.KV), compute: C.int64_t(p.Compute + p.Work), process: C.int64_t(p.Process),
		slots: C.int64_t(p.Slots), total: C.int64_t(p.Total), budget: C.int64_t(p.Budget), floor: C.int64_t(p.Floor),
		expert_bytes: C.int64_t(p.SlotBytes), slot_count: C.int32_t(p.SlotCount), floor_slots: C.int32_t(p.FloorSlots()),
		experts: C.int32_t(p.All), layers: C.int32_t(p.Layers), lookahead: C.int32_t(min(1, m.options.lookahead)), lanes: C.int32_t(lanes),
	}
}

func (m *model) stats() (result C.struct_les_stats, err error) {
	err = m.look(func(e *les.Engine) { result = statsOf(e.Stats()) })
	return result, err
}

func statsOf(s les.Stats) C.struct_les_stats {
	var sum sched.LayerStats
	for _, layer := range s.Layers {
		sum = sum.Plus(layer)
	}
	return C.struct_les_stats{
		lookups: C.int64_t(sum.Lookups), hits: C.int64_t(sum.Hits), joins: C.int64_t(sum.Joins), misses: C.int64_t(sum.Misses),
		guessed: C.int64_t(sum.Guessed), right: C.int64_t(sum.Right), routed_guessed: C.int64_t(sum.RoutedGuessed),
		demand_bytes: C.int64_t(s.DemandBytes), prefetch_bytes: C.int64_t(s.PrefetchBytes), warm_bytes: C.int64_t(s.WarmBytes),
		retried_reads: C.int64_t(s.Retries), failed_reads: C.int64_t(s.Failures), stall_ns: C.int64_t(s.Stall), cut_percent: C.int32_t(s.CutPercent),
	}
}

// setBudget and setSlots change the size of the pool; they wait for the layers in
// progress.
func (m *model) setBudget(bytes int64) error {
	return m.use(func(e *les.Engine) error { return m.resized(e.SetBudget(bytes)) })
}

func (m *model) setSlots(slots int) error {
	return m.use(func(e *les.Engine) error {
		if slots == C.LES_SLOTS_ALL {
			slots = e.Plan().Experts
		}
		return m.resized(e.SetSlots(slots))
	})
}

func (m *model) resized(p plan.Plan, err error) error {
	if err == nil {
		m.asked, m.level, m.outgrown = p, pressureNone, outgrown{}
		m.log.printf(levelInfo, "%s", describe(p))
		m.recounted(p)
	}
	return err
}

// close ends the engine. The weights may go afterwards.
func (m *model) close() error {
	m.guard.stop()
	defer m.lock()()
	var err error
	if m.engine != nil {
		endDrafts()
		if saved := m.warm.Save(); saved != nil {
			m.log.printf(levelWarn, "the warm file is not written: %v", saved)
		}
		others.remove(m)
		engine := m.engine
		m.setEngine(nil)
		err = engine.Close()
	}
	if m.member != nil {
		others.leave(m.member, &m.log)
	}
	m.streamed.Close()
	// What the engine held goes back to the system now: a program that loads and
	// frees models shall not see memory grow until Go's collector has reason to run.
	debug.FreeOSMemory()
	return err
}
