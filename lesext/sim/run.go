package sim

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/sched"
	"github.com/les-project/les/lesext/slot"
	"github.com/les-project/les/lesext/trace"
)

// Device is a model of a machine. A read waits for its latency, then for the
// reads before it, then moves its bytes at the full bandwidth.
type Device struct {
	BytesPerSecond int64
	Latency        time.Duration // of one read, in which others may wait as well
	Lanes          int           // reads in flight
	// Compute is the time of one layer and token with all experts in memory. Half
	// of it comes before the layer routes; the rest is divided evenly between the
	// experts of the step.
	Compute time.Duration
}

// Validate reports all problems of the device at once.
func (d Device) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("sim: "+format, args...))
		}
	}
	check(d.BytesPerSecond > 0, "bandwidth of %d bytes a second", d.BytesPerSecond)
	check(d.Latency >= 0, "latency of %v", d.Latency)
	check(d.Lanes > 0 && d.Lanes <= sched.LanesMax, "%d lanes, want 1 to %d", d.Lanes, sched.LanesMax)
	check(d.Compute > 0, "compute time of %v a layer", d.Compute)
	return errors.Join(errs...)
}

// transfer is the time to move so many bytes.
func (d Device) transfer(bytes int64) int64 {
	return int64(float64(bytes) / float64(d.BytesPerSecond) * 1e9)
}

// Result is what a run took on the virtual clock. Tokens, times and bytes are
// those after the skipped tokens.
type Result struct {
	Tokens                     int
	Lookups                    sched.LookupStats
	Bytes                      int64
	DemandReads, PrefetchReads int64
	Wall, Stall                time.Duration
}

// TokensPerSecond is the speed.
func (r Result) TokensPerSecond() float64 { return perSecond(r.Tokens, r.Wall) }

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// Ceilings are speeds that no policy passes.
type Ceilings struct {
	AllHits         float64 // tokens a second without any read
	PerfectPrefetch float64 // the reads of these counts, none too early, none waited for unless the device is busy all the time
}

// CeilingsOf returns the ceilings of a device for what a pool read.
func CeilingsOf(rec *trace.Recording, d Device, c Counts) Ceilings {
	compute := d.Compute * time.Duration(len(rec.Layers)*c.Tokens)
	return Ceilings{
		AllHits:         perSecond(c.Tokens, compute),
		PerfectPrefetch: perSecond(c.Tokens, max(compute, time.Duration(d.transfer(c.Bytes)))),
	}
}

// Run replays a recording, the first skip tokens uncounted, through the scheduler
// with one pool of slots, acting on so many guesses a layer.
func Run(rec *trace.Recording, policy string, slots, guesses, skip int, d Device) (Result, error) {
	if err := errors.Join(d.Validate(), checkPool(slots, skip)); err != nil {
		return Result{}, err
	}
	g := geometryOf(rec.Header)
	index := expert.NewIndex(g)
	chosen, err := NewPolicy(policy, slots, index, rec.Sets)
	if err != nil {
		return Result{}, err
	}
	m := &machine{rec: rec, device: d, index: index, words: make([]uint32, index.Len())}
	for _, l := range rec.Layers {
		m.readBytes = append(m.readBytes, l.Reads...)
	}
	m.sched, err = sched.Open(sched.Config{
		Geometry: g, Slots: slots, Arena: arena(int64(slots) * g.SlotBytes), Reader: noReader{}, Publisher: m,
		Lanes: d.Lanes, Lookahead: guesses, Policy: chosen, Manual: true,
	})
	if err != nil {
		return Result{}, err
	}
	m.replay(skip)
	return m.result(), m.sched.Close()
}

// arena is memory that nobody touches, which takes addresses only.
func arena(bytes int64) []byte {
	b := make([]byte, bytes+expert.Align)
	skip := int64(-uintptr(unsafe.Pointer(&b[0])) % expert.Align)
	return b[skip : skip+bytes : skip+bytes]
}

// noReader is never called: there are no lanes.
type noReader struct{}

func (noReader) ReadExtent(expert.Extent, []byte) error {
	panic("sim: a read on the virtual clock reaches a reader")
}

// flight is a read under way.
type flight struct {
	read readq.Read
	end  int64
}

// machine is the clock, the device and the threads that compute.
type machine struct {
	rec       *trace.Recording
	device    Device
	index     expert.Index
	sched     *sched.Scheduler
	words     []uint32 // by expert, as published
	readBytes []int64  // by file of the geometry
	flights   []flight // in the order of their ends
	busyUntil int64    // the device moves bytes until then
	now       int64
	left      []int32 // experts of the running layer that are not applied
	starved   bool    // some of them wait for slots

	begin, stall, bytes int64 // of what is counted
	tokens              int
}

// Publish implements sched.Publisher.
func (m *machine) Publish(layer, id int, word uint32) {
	m.words[m.index.Of(expert.Key{Layer: int32(layer), ID: int32(id)})] = word
}

func (m *machine) replay(skip int) {
	running, seen := trace.Set{Layer: -1}, 0
	for _, s := range m.rec.Sets {
		if s.Guessed {
			m.sched.Predicted(s.Layer, s.IDs)
			m.pump()
			continue
		}
		m.apply(running)
		if s.Layer == 0 {
			if seen <= skip {
				m.reset()
			}
			seen += s.Tokens
			m.tokens += s.Tokens
		}
		m.advance(m.now + int64(m.device.Compute)*int64(s.Tokens)/2)
		m.starved = m.sched.Routed(s.Layer, s.IDs, ^uint32(0), s.Tokens) > 0
		m.pump()
		running = s
	}
	m.apply(running)
}

// reset starts the counts.
func (m *machine) reset() {
	m.sched.ResetStats()
	m.begin, m.stall, m.bytes, m.tokens = m.now, 0, 0, 0
}

// apply computes the experts of a layer, those that are ready first.
func (m *machine) apply(s trace.Set) {
	if s.Layer < 0 {
		return
	}
	each := int64(m.device.Compute) / 2 * int64(s.Tokens) / int64(len(s.IDs))
	m.left = append(m.left[:0], s.IDs...)
	for len(m.left) > 0 {
		i := m.ready(s.Layer)
		if i < 0 {
			waited := m.now
			m.advance(m.flights[0].end)
			m.stall += m.now - waited
			continue
		}
		m.advance(m.now + each)
		if m.starved {
			m.sched.Released(s.Layer, m.left[i:i+1])
			m.pump()
		}
		m.left = append(m.left[:i], m.left[i+1:]...)
	}
	if !m.starved {
		m.sched.Released(s.Layer, s.IDs)
	}
	m.pump()
}

// ready returns which of the experts left has all its bytes, or -1.
func (m *machine) ready(layer int) int {
	all := uint32(1)<<len(m.rec.Layers[layer].Reads) - 1
	for i, id := range m.left {
		word := m.words[m.index.Of(expert.Key{Layer: int32(layer), ID: id})]
		if word&all == all && word&slot.FlagFailed == 0 {
			return i
		}
	}
	return -1
}

// pump starts the reads that are due, as far as lanes are idle.
func (m *machine) pump() {
	for len(m.flights) < m.device.Lanes {
		r, ok := m.sched.Next()
		if !ok {
			return
		}
		bytes := m.readBytes[r.Want.File]
		m.busyUntil = max(m.busyUntil, m.now+int64(m.device.Latency)) + m.device.transfer(bytes)
		m.flights = append(m.flights, flight{r, m.busyUntil})
		m.bytes += bytes
	}
}

// advance moves the clock, past the ends of reads if there are some.
func (m *machine) advance(to int64) {
	for len(m.flights) > 0 && m.flights[0].end <= to {
		done := m.flights[0]
		m.flights = m.flights[1:]
		m.now = done.end
		m.sched.Done(done.read, nil)
		m.pump()
	}
	m.now = max(m.now, to)
}

func (m *machine) result() Result {
	s := m.sched.Stats()
	return Result{
		Tokens: m.tokens, Lookups: s.LookupStats, Bytes: m.bytes,
		DemandReads: s.DemandReads, PrefetchReads: s.PrefetchReads,
		Wall: time.Duration(m.now - m.begin), Stall: time.Duration(m.stall),
	}
}
