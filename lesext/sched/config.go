package sched

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/slot"
	"github.com/les-project/les/lesext/trace"
)

const (
	// LanesDefault is how many reads are in flight at once when Config does not
	// say: a virtual NVMe disk gave 1.1 GiB/s with one read of a megabyte, and no
	// more above four.
	LanesDefault = 4
	// LanesMax bounds the threads that blocking reads may occupy.
	LanesMax = 256
	// retriesMax is how often a failed demand read is repeated. A passing fault
	// is over by then; a broken device must not hold up the token for long.
	retriesMax = 2
)

// Publisher tells compute threads what is in memory.
type Publisher interface {
	// Publish stores the word of one expert, with release order, into the
	// table shared with the compute threads and wakes those that wait for it.
	// See slot.Word for its layout. The scheduler calls it with its lock held,
	// in the order in which the words change, so it must be cheap and must not
	// call the scheduler.
	Publish(layer, id int, word uint32)
}

// Config configures a Scheduler.
type Config struct {
	Geometry expert.Geometry
	// Slots is the number of expert slots at first, at least 1; SetSlots changes it.
	Slots int
	// Arena is the memory of the slots: Geometry.SlotBytes bytes for each of the most
	// slots there can be, at an address that is a multiple of expert.Align. Only those
	// in use are touched. The caller owns it and keeps it until Close has returned.
	Arena []byte
	// Reader reads the model files. The caller closes it after Close.
	Reader    readq.Reader
	Publisher Publisher
	// Lanes is how many reads may be in flight at once; 0 means LanesDefault.
	// Prefetches leave one lane free for demands when there are several.
	Lanes int
	// Lookahead is how many guesses for one layer and step are acted on; 0
	// turns prefetching off.
	Lookahead int
	// Policy chooses victims among as many slots as the arena has; nil means LFRU. It
	// belongs to the scheduler.
	Policy slot.Policy
	// Manual starts no lanes: the caller takes reads with Next and hands them
	// back with Done, at most Lanes at once.
	Manual bool
	// OnFail, if set, is called when a demand read has failed for good, before
	// the failed word is published. The error is a *ReadError. Lanes call it with
	// the scheduler's lock held, so that the step that sees the word is the one
	// that the error is for; it must not wait, nor call the scheduler.
	OnFail func(error)
	// Tune lets the scheduler choose which guesses are worth a prefetch, down to
	// none, by the time that tokens take. It needs Now.
	Tune bool
	// OnLookahead, if set, is called when guesses are of no use from now on, and
	// when they are again; at first they are, with a Lookahead. It is called with
	// the scheduler's lock held, between steps, and must be cheap.
	OnLookahead func(wanted bool)
	// Now, if set, returns the time in nanoseconds, for Routes and Tune.
	Now func() int64
	// Routes, if set, records routed sets and guesses. Read it while nothing calls
	// the scheduler.
	Routes *trace.Routes
}

// Validate reports all problems of the configuration at once.
func (c Config) Validate() error {
	errs := []error{c.Geometry.Validate()}
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("sched: "+format, args...))
		}
	}
	check(c.Slots >= 1 && c.Slots <= slot.Max, "%d expert slots, want 1 to %d", c.Slots, slot.Max)
	if c.Slots >= 1 && c.Slots <= slot.Max && c.Geometry.SlotBytes > 0 {
		whole := int64(len(c.Arena))%c.Geometry.SlotBytes == 0
		enough := c.capacity() >= c.Slots && c.capacity() <= slot.Max
		check(whole && enough, "arena of %d bytes for %d slots of %d bytes", len(c.Arena), c.Slots, c.Geometry.SlotBytes)
	}
	if len(c.Arena) > 0 {
		check(uintptr(unsafe.Pointer(&c.Arena[0]))%expert.Align == 0, "arena is not aligned to %d", int64(expert.Align))
	}
	check(c.Reader != nil, "no reader")
	check(c.Publisher != nil, "no publisher")
	check(c.Lanes >= 0 && c.Lanes <= LanesMax, "%d lanes, want 0 to %d", c.Lanes, LanesMax)
	check(c.Lookahead >= 0, "lookahead of %d guesses", c.Lookahead)
	check(!c.Tune || c.Now != nil, "tuning without a clock")
	return errors.Join(errs...)
}

// capacity is how many slots the arena has room for.
func (c Config) capacity() int { return int(int64(len(c.Arena)) / c.Geometry.SlotBytes) }

// ReadError says that an expert could not be read for a demand.
type ReadError struct {
	Key      expert.Key
	Block    int // the block of the model that the layer is
	Attempts int
	Err      error // what the reader said: file, offset, length and cause
}

func (e *ReadError) Error() string {
	return fmt.Sprintf("expert %d of block %d (streamed layer %d), %d attempts: %v; check the file and its storage device", e.Key.ID, e.Block, e.Key.Layer, e.Attempts, e.Err)
}

// Unwrap returns the cause.
func (e *ReadError) Unwrap() error { return e.Err }
