// Package sched turns routed sets and guesses into hits, joins and reads. The
// Scheduler owns the pool of slots, the queue of reads and the lanes; its mutex
// is the only lock over them. The memory of the slots belongs to the caller.
//
// Compute thread 0 of a context calls Predicted, Routed and Released. None of
// them waits for a read or allocates. Several contexts may share a scheduler:
// pins are counted. A context must
//
//   - call Routed once for a layer of a step, or once for each group of spans,
//     and Released exactly once for each expert of each call, when nothing reads
//     the slot any more;
//   - apply experts in the order in which they become ready. With more routed
//     experts than slots, waiting for one expert while holding another that is
//     ready would wait for ever.
package sched

import (
	"sync"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/predict"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/slot"
	"github.com/les-project/les/lesext/trace"
	"github.com/les-project/les/lesext/tune"
)

// guess is how far the guess of an expert for the coming step of its layer is.
type guess uint8

const (
	noGuess     guess = iota
	guessQueued       // its reads are queued and it has no part in memory from them
	guessIssued       // its first read has started
)

// interest is what is wanted of one expert that a slot does not tell.
type interest struct {
	owed    int32 // pins to take when the expert gets a slot
	need    uint8 // spans to read then
	guess   guess
	waiting bool // in the queue of starved experts
	seen    bool // has been in memory before
	warm    bool // warming gave it its slot, and it is not routed yet
}

// Scheduler serves the experts of one model. Open it with Open.
type Scheduler struct {
	config      Config
	index       expert.Index
	runs        [][]expert.Run // by layer
	runsMax     int
	prefetchMax int // a prefetch starts only while fewer reads are in flight
	lanes       *readq.Lanes

	// mu guards all decisions. It is never held across a read or a callback
	// other than Publish.
	mu struct {
		sync.Mutex
		wake     *sync.Cond // lanes wait here for reads
		retired  *sync.Cond // WaitRetired waits here for slots to settle
		idle     int        // lanes that wait
		closed   bool
		table    *slot.Table
		queue    *readq.Queue
		tracker  *predict.Tracker
		interest []interest // by expert
		pending  [][]int32  // by layer: experts whose guess is not noGuess
		starved  starvedQueue
		chooser  *tune.Chooser // of a place in cuts; nil without Config.Tune
		cut      int           // guesses that come true more rarely get no prefetch, in parts of predict.Whole
		unwanted bool          // what OnLookahead was told last, the other way round
		attempts []uint8       // by read: failed attempts
		uses     []uint32      // by expert: how often it was routed
		warm     warmPlan
		stats    Stats
		counts   []layerCounts // by layer
	}
}

// Open checks the configuration, takes all memory and starts the lanes.
func Open(config Config) (*Scheduler, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Lanes == 0 {
		config.Lanes = LanesDefault
	}
	s := &Scheduler{config: config, index: expert.NewIndex(config.Geometry), prefetchMax: max(1, config.Lanes-1)}
	experts := make([]int, len(config.Geometry.Layers))
	m := &s.mu
	for i, l := range config.Geometry.Layers {
		experts[i] = l.Experts
		s.runs = append(s.runs, config.Geometry.Runs(i))
		s.runsMax = max(s.runsMax, len(s.runs[i]))
		m.pending = append(m.pending, make([]int32, 0, l.Experts))
	}
	if config.Policy == nil {
		config.Policy = slot.NewLFRU(config.capacity(), s.index)
	}
	m.wake, m.retired = sync.NewCond(&m.Mutex), sync.NewCond(&m.Mutex)
	m.table = slot.NewTable(s.index, config.capacity(), config.Policy)
	m.table.Resize(config.Slots)
	m.queue = readq.NewQueue(s.index.Len() * s.runsMax)
	m.tracker = predict.New(experts, config.Lookahead)
	m.counts = make([]layerCounts, len(experts))
	m.interest = make([]interest, s.index.Len())
	m.uses = make([]uint32, s.index.Len())
	m.starved = newStarvedQueue(s.index.Len())
	m.attempts = make([]uint8, s.index.Len()*s.runsMax)
	m.cut = cuts[cutFirst]
	if config.Tune && config.Lookahead > 0 {
		m.chooser = tune.New(len(cuts), cutFirst, decodeTokensMax)
	}
	lanes := config.Lanes
	if config.Manual {
		lanes = 0
	}
	s.lanes = readq.StartLanes(lanes, config.Reader, lane{s})
	return s, nil
}

// Predicted notes guesses for a layer that has not routed yet in this step,
// best first. The best ones that are missing are queued as prefetches; those in
// memory are protected until the layer has routed.
func (s *Scheduler) Predicted(layer int, ids []int32) {
	s.lockSoon()
	defer s.mu.Unlock()
	s.mustBeOpenLocked()
	s.recordLocked(layer, ids, 0)
	for rank, id := range s.mu.tracker.Guess(layer, ids) {
		s.guessLocked(expert.Key{Layer: int32(layer), ID: id}, rank)
	}
	s.wakeLocked()
}

// Routed notes that a layer needs the given distinct experts, of each the spans
// in the mask, for a step of that many tokens. It pins every expert that is in
// memory or gets a slot, and queues demand reads for what is missing. It returns
// how many experts wait for a slot; they get one, in the given order, as slots
// are released. Calls of one step for different spans are counted as one.
func (s *Scheduler) Routed(layer int, ids []int32, spans uint32, tokens int) (starved int) {
	s.lockSoon()
	defer s.mu.Unlock()
	s.mustBeOpenLocked()
	m := &s.mu
	spans &= s.config.Geometry.Layers[layer].AllSpans()
	if spans == 0 {
		panic("sched: experts are routed without a span")
	}
	first := m.counts[layer].begins(spans)
	if first {
		s.tuneLocked(layer, tokens)
		m.table.Step(layer)
		m.tracker.Routed(layer, ids, tokens)
		s.recordLocked(layer, ids, tokens)
	}
	for _, id := range ids {
		k := expert.Key{Layer: int32(layer), ID: id}
		found := s.lookupLocked(k, spans)
		if first {
			m.table.Use(k)
			m.uses[s.index.Of(k)]++
			m.counts[layer].count(found)
		}
	}
	s.expireLocked(layer)
	s.serveStarvedLocked()
	if m.starved.len() > 0 {
		starved = s.countStarvedLocked(layer, ids)
	}
	s.wakeLocked()
	return starved
}

// Released notes that experts of a routed layer have been applied, or are given
// up. Freed slots go to starved experts first. An expert that failed is
// forgotten, so that a later demand reads it again.
func (s *Scheduler) Released(layer int, ids []int32) {
	s.lockSoon()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.releaseLocked(expert.Key{Layer: int32(layer), ID: id})
	}
	s.serveStarvedLocked()
	s.wakeLocked()
}

// Close drops all queued reads, waits for those in flight and ends the lanes. A
// demand that is dropped is published as failed, so that nobody waits for it.
// Closing again does nothing.
func (s *Scheduler) Close() error {
	s.mu.Lock()
	if !s.mu.closed {
		s.mu.closed = true
		s.dropAllLocked()
		s.mu.wake.Broadcast()
		s.mu.retired.Broadcast()
	}
	s.mu.Unlock()
	s.lanes.Wait()
	return nil
}

// lockTries is how often lockSoon looks: for some 20 us.
const lockTries = 400

// lockSoon takes the lock for a compute thread. Lanes hold it for microseconds,
// but a thread of C that Go has put to sleep comes back by way of two others,
// which takes a hundred: so it looks again for a while.
func (s *Scheduler) lockSoon() {
	for range lockTries {
		if s.mu.TryLock() {
			return
		}
		for range 100 { // some 50 ns
		}
	}
	s.mu.Lock()
}

func (s *Scheduler) mustBeOpenLocked() {
	if s.mu.closed {
		panic("sched: use after Close")
	}
}

// interestLocked returns what is wanted of an expert.
func (s *Scheduler) interestLocked(k expert.Key) *interest {
	return &s.mu.interest[s.index.Of(k)]
}

// readID numbers the read of one run of an expert in the queue.
func (s *Scheduler) readID(k expert.Key, run int) int { return s.index.Of(k)*s.runsMax + run }

// recordLocked keeps a routed set or, without tokens, a guess.
func (s *Scheduler) recordLocked(layer int, ids []int32, tokens int) {
	if s.config.Routes != nil && len(ids) > 0 {
		s.config.Routes.Record(trace.Set{TimeNS: s.now(), Layer: layer, Tokens: tokens, IDs: ids, Guessed: tokens == 0})
	}
}

func (s *Scheduler) now() int64 {
	if s.config.Now == nil {
		return 0
	}
	return s.config.Now()
}
