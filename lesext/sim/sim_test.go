package sim_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/les-project/les/lesext/sim"
	"github.com/les-project/les/lesext/trace"
)

const (
	layers, experts, used = 6, 32, 4
	expertBytes           = 1000
)

// recording makes routes where popularity is skewed and differs by layer. Each
// set is guessed right while the layer before runs.
func recording(tokens int) *trace.Recording {
	rec := &trace.Recording{}
	for i := range layers {
		rec.Layers = append(rec.Layers, trace.Layer{Block: i, Experts: experts, Used: used, Reads: []int64{expertBytes / 2, expertBytes / 2}})
	}
	chance := rand.New(rand.NewPCG(1, 2))
	popular := rand.NewZipf(chance, 1.1, 6, experts-1)
	var routed []trace.Set
	for i := range tokens * layers {
		s := trace.Set{Layer: i % layers, Tokens: 1}
		for len(s.IDs) < used {
			if id := int32(popular.Uint64()*7+uint64(s.Layer)*5) % experts; !slices.Contains(s.IDs, id) {
				s.IDs = append(s.IDs, id)
			}
		}
		routed = append(routed, s)
	}
	for i, s := range routed {
		rec.Sets = append(rec.Sets, s)
		if i+1 < len(routed) {
			rec.Sets = append(rec.Sets, trace.Set{Layer: routed[i+1].Layer, IDs: routed[i+1].IDs, Guessed: true})
		}
	}
	return rec
}

var device = sim.Device{BytesPerSecond: 1e6, Latency: 100 * time.Microsecond, Lanes: 4, Compute: 4 * time.Millisecond}

func count(t *testing.T, rec *trace.Recording, policy string, slots int) sim.Counts {
	t.Helper()
	c, err := sim.Count(rec, policy, slots, 20)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNoPolicyHitsMoreThanTheOptimum(t *testing.T) {
	rec := recording(300)
	for _, slots := range []int{8, 16, 24, 48, 96, 150} {
		best := count(t, rec, sim.PolicyOptimum, slots)
		for _, policy := range append(sim.Policies(), "lfru:2", "lfru:64") {
			c := count(t, rec, policy, slots)
			if c.Hits > best.Hits || c.Tokens != 280 || c.Lookups != 280*layers*used {
				t.Errorf("%d slots, %s: %+v, optimum %+v", slots, policy, c, best)
			}
			if c.Bytes != (c.Lookups-c.Hits)*expertBytes {
				t.Errorf("%d slots, %s: %d bytes for %d misses", slots, policy, c.Bytes, c.Lookups-c.Hits)
			}
		}
	}
}

func TestAllPoliciesHitEverythingWithAllSlots(t *testing.T) {
	rec := recording(400)
	for _, policy := range sim.Policies() {
		c, err := sim.Count(rec, policy, layers*experts, 300)
		shares, sharesErr := sim.CountShares(rec, policy, layers*experts, 300)
		if err != nil || sharesErr != nil || c.HitRate() < 0.999 || shares != c {
			t.Errorf("%s: %+v, with shares %+v, errors %v, %v", policy, c, shares, err, sharesErr)
		}
	}
}

// TestEngineBucketsLoseNothing compares the engine's LFRU with the exact one.
func TestEngineBucketsLoseNothing(t *testing.T) {
	rec := recording(400)
	for _, slots := range []int{12, 24, 48, 96} {
		buckets, exact := count(t, rec, "lfru", slots).HitRate(), count(t, rec, "lfru:4", slots).HitRate()
		if buckets < exact-0.02 {
			t.Errorf("%d slots: %.3f in buckets, %.3f exactly", slots, buckets, exact)
		}
	}
}

func TestLRUHitsNothingBelowTheCycleAndLFRUDoes(t *testing.T) {
	rec := &trace.Recording{Header: recording(1).Header}
	for i := range 100 * layers {
		rec.Sets = append(rec.Sets, trace.Set{Layer: i % layers, Tokens: 1, IDs: []int32{1, 2, 3, 4}})
	}
	slots := layers*used - used
	if lru := count(t, rec, sim.PolicyLRU, slots); lru.Hits != 0 {
		t.Errorf("LRU: %+v", lru)
	}
	best := count(t, rec, sim.PolicyOptimum, slots)
	if lfru := count(t, rec, sim.PolicyLFRU, slots); lfru.HitRate() < best.HitRate()-0.05 || lfru.HitRate() < 0.5 {
		t.Errorf("LFRU %.3f, optimum %.3f", lfru.HitRate(), best.HitRate())
	}
}

func run(t *testing.T, rec *trace.Recording, slots, guesses int) sim.Result {
	t.Helper()
	r, err := sim.Run(rec, sim.PolicyLFRU, slots, guesses, 20, device)
	if err != nil {
		t.Fatal(err)
	}
	if l := r.Lookups; l.Hits+l.Joins+l.Misses != l.Lookups || r.Tokens != rec.Tokens()-20 {
		t.Errorf("%+v", r)
	}
	return r
}

func TestVirtualRunIsTheSameEachTime(t *testing.T) {
	rec := recording(60)
	if a, b := run(t, rec, 48, 4), run(t, rec, 48, 4); a != b {
		t.Errorf("%+v, then %+v", a, b)
	}
}

func TestVirtualRunWithoutGuessesHitsWhatCountHits(t *testing.T) {
	rec := recording(200)
	for _, slots := range []int{8, 24, 96, layers * experts} {
		r, c := run(t, rec, slots, 0), count(t, rec, sim.PolicyLFRU, slots)
		if r.Lookups.Hits != c.Hits || r.Bytes != c.Bytes {
			t.Errorf("%d slots: %+v on the clock, %+v counted", slots, r, c)
		}
	}
}

func TestRightGuessesHideReads(t *testing.T) {
	rec := recording(100)
	without, with := run(t, rec, 48, 0), run(t, rec, 48, used)
	if with.Stall >= without.Stall/2 || with.Wall >= without.Wall {
		t.Errorf("stall %v with guesses, %v without", with.Stall, without.Stall)
	}
	ceilings := sim.CeilingsOf(rec, device, count(t, rec, sim.PolicyLFRU, 48))
	if s := with.TokensPerSecond(); s > ceilings.AllHits || s < ceilings.PerfectPrefetch*0.8 {
		t.Errorf("%.1f tok/s, ceilings %+v", s, ceilings)
	}
}

func TestStallIsWhatReadsAddToComputing(t *testing.T) {
	rec := recording(50)
	r := run(t, rec, 24, 0)
	compute := device.Compute * layers * time.Duration(r.Tokens)
	if d := r.Wall - r.Stall - compute; d < -time.Millisecond || d > time.Millisecond {
		t.Errorf("wall %v, stall %v, compute %v", r.Wall, r.Stall, compute)
	}
}

// TestSetsWiderThanThePoolAreReplayed has steps of many tokens.
func TestSetsWiderThanThePoolAreReplayed(t *testing.T) {
	rec := recording(30)
	all := make([]int32, experts)
	for id := range all {
		all[id] = int32(id)
	}
	for i := range layers {
		rec.Sets = append(rec.Sets, trace.Set{Layer: i, Tokens: 40, IDs: all})
	}
	for _, policy := range sim.Policies() {
		for _, slots := range []int{1, 3, 8} {
			c := count(t, rec, policy, slots)
			r, err := sim.Run(rec, policy, slots, 0, 20, device)
			if err != nil || c.Tokens != 50 || r.Lookups.Lookups != c.Lookups {
				t.Errorf("%s, %d slots: %+v, %+v, error %v", policy, slots, c, r, err)
			}
		}
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	rec := recording(2)
	for policy, want := range map[string]string{"x": `"x"`, "lfru:0": "half-life", "lfru:x": "half-life", "lru:3": `"lru:3"`} {
		if _, err := sim.Count(rec, policy, 4, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", policy, err)
		}
	}
	_, err := sim.Run(rec, sim.PolicyLFRU, 0, 0, -1, sim.Device{Latency: -1})
	for _, want := range []string{"pool of 0", "bandwidth of 0", "latency", "0 lanes", "compute"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}
