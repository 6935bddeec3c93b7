package probe_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/probe"
)

const gib = float64(1 << 30)

// flash is what a good device shows: all bandwidth from four lanes on.
func flash() probe.Findings {
	f := probe.Findings{System: probe.System{FileSystem: "ext4", HugePages: "madvise", Processors: 4}, Processors: 4, FileBytes: 8 << 30, DeviceBytes: 8 << 30, Lanes: 4}
	for _, direct := range []bool{true, false} {
		for _, size := range probe.DefaultSizes() {
			for i, depth := range probe.DefaultDepths() {
				f.Samples = append(f.Samples, probe.Sample{
					ReadBytes: size, Depth: depth, Direct: direct, Reads: 100, LatencyMedianNS: 1e6, LatencyP95NS: 2e6,
					BytesPerSecond: []float64{gib, 1.5 * gib, 1.96 * gib, 2 * gib}[i],
				})
			}
		}
	}
	return f
}

func says(lines []string, part string) bool { return strings.Contains(strings.Join(lines, "\n"), part) }

func TestFewestLanesThatGiveTheBandwidthAreAdvised(t *testing.T) {
	a := probe.Advise(flash())
	if a.Lanes != 4 || !a.Direct || a.BytesPerSecond != 1.96*gib || !says(a.Sentences, "--les-lanes 4") {
		t.Errorf("advice %+v", a)
	}
	if len(a.Problems) != 0 {
		t.Errorf("problems of a good device: %q", a.Problems)
	}
}

func TestOneLaneIsNotAdvisedWhereTwoDoAsWell(t *testing.T) {
	f := flash()
	f.Lanes = 16 // not measured
	for i := range f.Samples {
		f.Samples[i].BytesPerSecond = gib
	}
	if a := probe.Advise(f); a.Lanes != 2 {
		t.Errorf("%d lanes", a.Lanes)
	}
	for i := range f.Samples {
		f.Samples[i].BytesPerSecond = gib / float64(f.Samples[i].Depth)
	}
	if a := probe.Advise(f); a.Lanes != 1 {
		t.Errorf("%d lanes where more are slower", a.Lanes)
	}
}

func TestBufferedFiguresOfASmallFileAreNotTrusted(t *testing.T) {
	f := flash()
	f.FileBytes = 58 << 20
	if a := probe.Advise(f); !says(a.Sentences, "buffered figures flatter") {
		t.Errorf("sentences %q", a.Sentences)
	}
}

func TestBoundIsBandwidthOverBytesOfAToken(t *testing.T) {
	f := flash()
	f.Demands = probe.Demands{ExpertBytes: 1350 << 10, TokenBytes: 420 << 20, FloorBytes: 2 << 30}
	f.MemoryBytes = 4 << 30
	a := probe.Advise(f)
	if want := 1.96 * gib / float64(420<<20); a.TokensBound != want || !says(a.Sentences, "420.0 MiB of experts") {
		t.Errorf("bound %f, want %f: %q", a.TokensBound, want, a.Sentences)
	}
	if !says(a.Sentences, "plan for 4.00 GiB") {
		t.Errorf("memory is not mentioned: %q", a.Sentences)
	}
}

func TestReadsAreLookedAtInTheSizeOfTheModelsExperts(t *testing.T) {
	f := flash()
	for i := range f.Samples {
		if f.Samples[i].ReadBytes == 440<<10 && f.Samples[i].Direct {
			f.Samples[i].BytesPerSecond = float64(f.Samples[i].Depth) * 1e8
		}
	}
	f.Demands = probe.Demands{ExpertBytes: 430 << 10, TokenBytes: 1 << 28}
	if a := probe.Advise(f); a.Lanes != 8 || a.BytesPerSecond != 8e8 {
		t.Errorf("advice %+v", a)
	}
}

func TestProblemsAreFlagged(t *testing.T) {
	cases := map[string]struct {
		spoil func(f *probe.Findings)
		want  string
	}{
		"no direct reads": {func(f *probe.Findings) { f.NoDirect = errors.New("invalid argument") }, "Direct reads are refused: invalid argument"},
		"in memory":       {func(f *probe.Findings) { f.System.FileSystem = "tmpfs" }, "in memory (tmpfs)"},
		"remote":          {func(f *probe.Findings) { f.System.FileSystem = "nfs" }, "nfs"},
		"holes":           {func(f *probe.Findings) { f.DeviceBytes = 0 }, "has holes"},
		"slow": {func(f *probe.Findings) {
			for i := range f.Samples {
				f.Samples[i].BytesPerSecond = 5e7
			}
		}, "slow for flash"},
		"pauses": {func(f *probe.Findings) {
			for i := range f.Samples {
				f.Samples[i].LatencyP95NS = 1e8
			}
		}, "One read in twenty takes 100.0 ms"},
		"no huge pages":    {func(f *probe.Findings) { f.System.HugePages = "never" }, "huge pages are off"},
		"processor quota":  {func(f *probe.Findings) { f.Processors = 1.5 }, "1.5 of 4 processors"},
		"memory too small": {func(f *probe.Findings) { f.MemoryBytes, f.Demands.FloorBytes = 1<<30, 2<<30 }, "needs 2.00 GiB at least"},
	}
	for name, c := range cases {
		f := flash()
		c.spoil(&f)
		if a := probe.Advise(f); len(a.Problems) != 1 || !says(a.Problems, c.want) {
			t.Errorf("%s: problems %q", name, a.Problems)
		}
	}
}

func TestWithoutDirectReadsTheBufferedOnesDecide(t *testing.T) {
	f := flash()
	f.Samples, f.NoDirect = f.Samples[len(f.Samples)/2:], errors.New("not supported")
	if a := probe.Advise(f); a.Direct || a.Lanes != 4 || !says(a.Sentences, "page cache") {
		t.Errorf("advice %+v", a)
	}
}

func TestAdviceWithoutSamplesSaysNothing(t *testing.T) {
	if a := probe.Advise(probe.Findings{}); a.Lanes != 0 || len(a.Sentences) != 0 {
		t.Errorf("advice %+v", a)
	}
}
