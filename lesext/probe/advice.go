package probe

import (
	"cmp"
	"fmt"
	"slices"
)

// Demands is what a model asks of the flash and of memory. The zero value
// stands for no model: nothing is said about tokens.
type Demands struct {
	ExpertBytes int64 // one expert, which is read at once or in a few parts
	TokenBytes  int64 // experts of one token, nothing cached
	FloorBytes  int64 // least memory that can run the model
}

// Findings is everything Advise looks at.
type Findings struct {
	System      System
	Samples     []Sample
	NoDirect    error   // why direct reads are refused; nil when they work
	FileBytes   int64   // of the file that was read
	DeviceBytes int64   // that it takes on the device, negative when unknown
	MemoryBytes int64   // what a process may plan for, 0 when unknown
	Processors  float64 // that the process may use, 0 when unknown
	Lanes       int     // reads in flight that the engine has by default
	Demands     Demands
}

// Advice is what the findings imply.
type Advice struct {
	Lanes          int      `json:"lanes"`  // reads in flight
	Direct         bool     `json:"direct"` // read past the page cache
	BytesPerSecond float64  `json:"bytes_per_second"`
	TokensBound    float64  `json:"tokens_per_second_bound"` // nothing cached; 0 without a model
	Sentences      []string `json:"sentences"`
	Problems       []string `json:"problems"`
}

// typicalExpert is the read size that is looked at without a model.
const typicalExpert = 1332 << 10

const (
	// enough is the share of the best bandwidth that more lanes are not taken
	// for: each lane is a thread that compute threads are interrupted by.
	enough = 0.95
	// clearly is by how much one way of reading must be better to be called so:
	// two measurements of the same differ by about a tenth.
	clearly = 1.1
	// slowFlash is below what any built-in flash of the last years gives. At it,
	// a token of a 35B-A3B model takes two seconds.
	slowFlash = 200e6
	// smallFile is the size up to which reading ahead soon has the whole file in
	// the page cache.
	smallFile = 1 << 30
	// jumpy is the ratio of the slowest twentieth of reads to the median from
	// which single reads, not bandwidth, decide how long a token takes.
	jumpy = 8
)

// Advise says which settings the findings imply, and what is wrong.
func Advise(f Findings) Advice {
	a := Advice{Sentences: []string{}, Problems: []string{}}
	direct, buffered := f.best(true), f.best(false)
	best := direct
	a.Direct = direct.BytesPerSecond > 0
	if direct.BytesPerSecond == 0 {
		best = buffered
	}
	a.Lanes, a.BytesPerSecond = best.Depth, best.BytesPerSecond
	a.adviseReads(f, best, direct, buffered)
	a.adviseTokens(f)
	a.findProblems(f, best)
	return a
}

// best is the sample for the lanes to take, at the read size nearest to that of
// an expert: the default ones where they give about all the bandwidth there is,
// else the fewest that do.
func (f Findings) best(direct bool) (best Sample) {
	size := f.Demands.ExpertBytes
	if size == 0 {
		size = typicalExpert
	}
	var candidates []Sample
	nearest := int64(-1)
	for _, s := range f.Samples {
		distance := max(s.ReadBytes-size, size-s.ReadBytes)
		if s.Direct != direct || nearest >= 0 && distance > nearest {
			continue
		}
		if distance != nearest {
			candidates, nearest = candidates[:0], distance
		}
		candidates = append(candidates, s)
	}
	if len(candidates) == 0 {
		return best
	}
	most := slices.MaxFunc(candidates, func(a, b Sample) int { return cmp.Compare(a.BytesPerSecond, b.BytesPerSecond) })
	slices.SortFunc(candidates, func(a, b Sample) int { return rank(a.Depth, f.Lanes) - rank(b.Depth, f.Lanes) })
	for _, s := range candidates {
		if s.BytesPerSecond >= enough*most.BytesPerSecond {
			return s
		}
	}
	return most
}

// rank orders numbers of lanes: the default one, then from few to many. One lane
// comes last, as prefetches would then be in the way of demands.
func rank(lanes, usual int) int {
	switch lanes {
	case usual:
		return 0
	case 1:
		return DepthMax + 1
	}
	return lanes
}

func (a *Advice) say(format string, args ...any) {
	a.Sentences = append(a.Sentences, fmt.Sprintf(format, args...))
}

func (a *Advice) warn(format string, args ...any) {
	a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
}

// adviseReads speaks of lanes and of direct against buffered reads.
func (a *Advice) adviseReads(f Findings, best, direct, buffered Sample) {
	if best.Depth == 0 {
		return
	}
	usual := ""
	if best.Depth == f.Lanes {
		usual = ", which is the default"
	}
	a.say("%s reads of %d KiB reach %s with %d in flight: --les-lanes %d%s.",
		way(best.Direct), best.ReadBytes>>10, perSecond(best.BytesPerSecond), best.Depth, best.Depth, usual)
	switch {
	case f.NoDirect != nil:
		a.say("Experts are read through the page cache, which takes memory and processor time beside the plan.")
	case buffered.Depth == 0:
	case f.FileBytes < smallFile:
		a.say("Direct reads are the default. The file is small, so that reading ahead soon has all of it in memory: the buffered figures flatter.")
	case buffered.BytesPerSecond > clearly*direct.BytesPerSecond:
		a.say("Buffered reads are faster here (%s): the system reads ahead, or another layer caches. LES reads directly, since what the page cache holds is memory that slots could have.", perSecond(buffered.BytesPerSecond))
	case direct.BytesPerSecond > clearly*buffered.BytesPerSecond:
		a.say("Direct reads, which are the default, are faster than buffered ones (%s).", perSecond(buffered.BytesPerSecond))
	default:
		a.say("Direct reads, which are the default, are as fast as buffered ones and take no page cache.")
	}
}

// adviseTokens speaks of what a model can reach.
func (a *Advice) adviseTokens(f Findings) {
	d := f.Demands
	if d.TokenBytes == 0 || a.BytesPerSecond == 0 {
		return
	}
	a.TokensBound = a.BytesPerSecond / float64(d.TokenBytes)
	a.say("A token uses %s of experts. With none cached the flash allows %.2f tokens a second; with half of them cached, %.2f.",
		size(d.TokenBytes), a.TokensBound, 2*a.TokensBound)
	if f.MemoryBytes >= d.FloorBytes && f.MemoryBytes > 0 {
		a.say("This process may plan for %s; the model needs %s at least. The rest holds experts.", size(f.MemoryBytes), size(d.FloorBytes))
	}
}

// inMemory and remote are file systems that are no flash of this machine.
var (
	inMemory = []string{"tmpfs", "ramfs"}
	remote   = []string{"nfs", "cifs", "smb2", "9p", "fuse"}
)

func (a *Advice) findProblems(f Findings, best Sample) {
	if f.NoDirect != nil {
		a.warn("Direct reads are refused: %v.", f.NoDirect)
	}
	if slices.Contains(inMemory, f.System.FileSystem) {
		a.warn("The file is in memory (%s): there is nothing to stream from, and it takes the memory that slots need.", f.System.FileSystem)
	}
	if f.DeviceBytes >= 0 && f.DeviceBytes < f.FileBytes/10*9 {
		a.warn("The file of %s takes only %s on the device: it has holes or is compressed, and the figures flatter.", size(f.FileBytes), size(f.DeviceBytes))
	}
	if slices.Contains(remote, f.System.FileSystem) {
		a.warn("The file system is %s, which often stands for another machine or program; reads can take long at any time.", f.System.FileSystem)
	}
	if a.BytesPerSecond > 0 && a.BytesPerSecond < slowFlash {
		a.warn("%s is slow for flash: keep models on built-in storage, not on a card, a disk or a network.", perSecond(a.BytesPerSecond))
	}
	if best.LatencyMedianNS > 0 && best.LatencyP95NS > jumpy*best.LatencyMedianNS {
		a.warn("One read in twenty takes %.1f ms or more, the median is %.1f ms: something else uses the device, or it pauses.",
			float64(best.LatencyP95NS)/1e6, float64(best.LatencyMedianNS)/1e6)
	}
	if f.System.HugePages == "never" {
		a.warn("Transparent huge pages are off: slots are in small pages, and reads and products cost more. To allow them: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled.")
	}
	if f.Processors > 0 && f.Processors < float64(f.System.Processors) {
		a.warn("The control group allows %.1f of %d processors: give -t no more than that.", f.Processors, f.System.Processors)
	}
	if f.MemoryBytes > 0 && f.MemoryBytes < f.Demands.FloorBytes {
		a.warn("This process may plan for %s, but the model needs %s at least.", size(f.MemoryBytes), size(f.Demands.FloorBytes))
	}
}

func way(direct bool) string {
	if direct {
		return "Direct"
	}
	return "Buffered"
}

// perSecond prints a bandwidth.
func perSecond(bytes float64) string { return size(int64(bytes)) + "/s" }

// size prints bytes in MiB, or GiB from there on.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
}
