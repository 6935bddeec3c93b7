package probe_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/probe"
)

// device is a file whose reads take a fixed time each on a clock of its own.
type device struct {
	mu     sync.Mutex
	now    int64
	readNS int64
	seen   map[place]int // reads, since the last reset
	fail   error
}

type place struct {
	file int
	off  int64
}

func (d *device) ReadExtent(want expert.Extent, buf []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now += d.readNS
	d.seen[place{want.File, want.Off}]++
	if int64(len(buf)) != want.Bytes || want.Off%expert.Align != 0 {
		return errors.New("buffer and extent do not fit")
	}
	return d.fail
}

func (d *device) clock() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now
}

func (d *device) config() probe.Config {
	return probe.Config{Reader: d, FileBytes: []int64{probe.FileBytesMin}, BudgetNS: 1e9, Now: d.clock}
}

func newDevice() *device { return &device{readNS: 1e6, seen: map[place]int{}} }

func TestBandwidthAndLatencyAreThoseOfTheDevice(t *testing.T) {
	d := newDevice()
	c := d.config()
	c.Sizes, c.Depths, c.Direct = []int64{1 << 20}, []int{1}, true
	samples, err := probe.Measure(t.Context(), c)
	if err != nil || len(samples) != 1 {
		t.Fatal(samples, err)
	}
	s := samples[0]
	if want := float64(1<<20) * 1000; s.BytesPerSecond != want {
		t.Errorf("%f bytes a second, want %f", s.BytesPerSecond, want)
	}
	if s.LatencyMedianNS != 1e6 || s.LatencyP95NS != 1e6 || s.ReadBytes != 1<<20 || s.Depth != 1 || !s.Direct {
		t.Errorf("sample %+v", s)
	}
}

func TestNoPartIsReadTwiceInASample(t *testing.T) {
	for _, size := range probe.DefaultSizes() {
		for _, depth := range probe.DefaultDepths() {
			d := newDevice()
			c := d.config()
			c.Sizes, c.Depths, c.BudgetNS = []int64{size}, []int{depth}, 1<<62
			samples, err := probe.Measure(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			if want := int(c.FileBytes[0] / size); samples[0].Reads != want || len(d.seen) != want {
				t.Errorf("%d bytes: %d reads of %d parts, want %d", size, samples[0].Reads, len(d.seen), want)
			}
		}
	}
}

func TestAllFilesAreReadToTheirLastWholePart(t *testing.T) {
	d := newDevice()
	c := d.config()
	c.FileBytes = []int64{1<<20 + 5000, 100, 3 << 20}
	c.Sizes, c.Depths, c.BudgetNS = []int64{1 << 20}, []int{2}, 1<<62
	if _, err := probe.Measure(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	want := map[place]int{{0, 0}: 1, {2, 0}: 1, {2, 1 << 20}: 1, {2, 2 << 20}: 1}
	if !maps.Equal(d.seen, want) {
		t.Errorf("reads %v, want %v", d.seen, want)
	}
}

func TestAnotherTurnReadsOtherParts(t *testing.T) {
	d := newDevice()
	c := d.config()
	c.Sizes, c.Depths, c.BudgetNS = []int64{64 << 10}, []int{1}, 1
	for c.Turn = range int64(20) {
		if _, err := probe.Measure(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if len(d.seen) != 20 {
		t.Errorf("20 reads of %d parts", len(d.seen))
	}
}

func TestBudgetIsKeptAndWhatItDoesNotReachIsLeftOut(t *testing.T) {
	d := newDevice()
	d.readNS = 300e6
	c := d.config()
	c.Depths = []int{1}
	var told int
	c.Progress = func(done, all int, s probe.Sample) {
		if told++; done != told || all != len(probe.DefaultSizes()) || s.Reads == 0 {
			t.Errorf("progress %d of %d: %+v", done, all, s)
		}
	}
	samples, err := probe.Measure(t.Context(), c)
	if err != nil || len(samples) != 4 || told != 4 || d.now > 1200e6 {
		t.Errorf("%d samples in %d ns, %v", len(samples), d.now, err)
	}
}

func TestTimeThatIsNotUsedGoesToLaterSamples(t *testing.T) {
	d := newDevice()
	c := d.config()
	c.Sizes, c.Depths = []int64{4 << 20, 64 << 10}, []int{1}
	samples, err := probe.Measure(t.Context(), c)
	if err != nil || len(samples) != 2 {
		t.Fatal(samples, err)
	}
	// Eight reads are all that there are of 4 MiB; the rest of the second goes to
	// the small ones, of which there are no more than 512.
	if samples[0].Reads != 8 || samples[1].Reads != 512 {
		t.Errorf("samples %+v", samples)
	}
}

func TestFailedReadEndsTheMeasurement(t *testing.T) {
	d := newDevice()
	d.fail = errors.New("no medium")
	if _, err := probe.Measure(t.Context(), d.config()); !errors.Is(err, d.fail) {
		t.Errorf("error is %v", err)
	}
	d.fail = nil
	c := d.config()
	dropped := errors.New("cannot drop")
	c.Before = func() error { return dropped }
	if _, err := probe.Measure(t.Context(), c); !errors.Is(err, dropped) {
		t.Errorf("error is %v", err)
	}
}

func TestCancelledMeasurementEnds(t *testing.T) {
	d := newDevice()
	ctx, cancel := context.WithCancel(t.Context())
	c := d.config()
	c.Progress = func(int, int, probe.Sample) { cancel() }
	samples, err := probe.Measure(ctx, c)
	if !errors.Is(err, context.Canceled) || len(samples) != 1 {
		t.Errorf("%d samples, %v", len(samples), err)
	}
}

func TestValidateNamesAllProblems(t *testing.T) {
	c := probe.Config{FileBytes: []int64{4096}, Sizes: []int64{100, 8192}, Depths: []int{0}}
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"no reader", "no clock", "files of [4096] bytes have no room for a read of 8192", "a budget of 0", "reads of 100 bytes", "0 reads in flight"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
}
