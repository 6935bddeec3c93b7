package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain lets the test program stand in for lescli where bench, or a test, starts
// it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{benchWorkerName, "bench", "run"}, os.Args[1]) {
		os.Exit(realMain(os.Args, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// benchText writes a text that is long enough for short benchmarks.
func benchText(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text.txt")
	if err := os.WriteFile(path, []byte(strings.Repeat("for i := range n { sum += i }\n", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// bench runs the command and returns its report and what it printed.
func bench(t *testing.T, args ...string) (report benchReport, stdout, stderr string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench.json")
	stdout, stderr, code := lescli(append([]string{"bench", "--json", path}, args...)...)
	if code != exitOK {
		t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report, stdout, stderr
}

// armNames are the names in order.
func armNames(report benchReport) (names []string) {
	for _, arm := range report.Arms {
		names = append(names, arm.Name)
	}
	return names
}

func TestBenchSweepsSlotsOverATextInTurn(t *testing.T) {
	report, stdout, stderr := bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-f", benchText(t), "-n", "16", "-r", "2", "--sweep", "slots=0,2,all,off")
	if want := []string{"slots 0", "slots 2", "slots all", "off"}; !slices.Equal(armNames(report), want) {
		t.Fatalf("arms are %q, want %q", armNames(report), want)
	}
	order := []string{"round 1 of 2, slots 0", "round 1 of 2, off", "round 2 of 2, slots 0", "round 2 of 2, off"}
	for i, at := 0, 0; i < len(order); i++ {
		next := strings.Index(stderr[at:], order[i])
		if next < 0 {
			t.Fatalf("%q does not follow in %s", order[i], stderr)
		}
		at += next
	}
	if !strings.Contains(stdout, "ceiling") || !strings.Contains(stdout, "a token:") {
		t.Errorf("tables are %s", stdout)
	}
	for i, arm := range report.Arms[:3] {
		if want := []int{4, 12, 32}[i]; arm.Slots != want || len(arm.PerLayer) != 4 || arm.PerLayer[0].Lookups != 2*16*2 {
			t.Errorf("%d slots, want %d; layers are %+v", arm.Slots, want, arm.PerLayer)
		}
		if i > 0 && *arm.HitRate < *report.Arms[i-1].HitRate {
			t.Errorf("hit rate falls to %v with more slots", *arm.HitRate)
		}
		if *arm.PreviousOverlap != *report.Arms[0].PreviousOverlap {
			t.Errorf("recall or overlap depend on slots: %+v", arm.layerRates)
		}
		if len(arm.Decode.Samples) != 2 || arm.Roofline == nil || arm.Roofline.Resident != "slots all" || arm.Roofline.Speed <= 0 {
			t.Errorf("%s: samples %v, roofline %+v", arm.Name, arm.Decode, arm.Roofline)
		}
	}
	if off := report.Arms[3]; off.LES != "off" || off.Roofline != nil || off.Cost == nil || off.Cost.UserMS+off.Cost.SystemMS <= 0 {
		t.Errorf("the resident arm is %+v", off)
	}
	if all := report.Arms[2]; *all.HitRate != 1 || all.DemandBytes+all.PrefetchBytes != 0 {
		t.Errorf("with all slots %v are hits and %d bytes are read: the arm was measured before all was in memory", *all.HitRate, all.DemandBytes+all.PrefetchBytes)
	}
	if report.Arms[0].PerLayer[0].Recall != nil || report.Arms[0].PerLayer[1].Recall == nil {
		t.Error("the first layer alone has nobody to guess for it")
	}
}

// A process for each sample feeds what a process for the arm feeds, so that
// routing does not depend on it.
func TestBenchFeedsTheSameTokensWhateverTheProcesses(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3moe")
	var before *benchReport
	for _, processes := range []string{processesArm, processesSample} {
		report, _, _ := bench(t, "-m", model, "-n", "12", "-p", "5", "-r", "2", "--sweep", "slots=0,1", "--processes", processes)
		if report.Processes != processes {
			t.Errorf("processes are %q, want %q", report.Processes, processes)
		}
		if before != nil && *report.Arms[0].PreviousOverlap != *before.Arms[0].PreviousOverlap {
			t.Errorf("routing depends on the processes: %+v, %+v", report.Arms[0].layerRates, before.Arms[0].layerRates)
		}
		before = &report
	}
}

// Every routed expert that was not in memory before the step is missed,
// whether a prefetch or a demand brought it.
func TestBenchCountsWhatACacheMisses(t *testing.T) {
	report, _, _ := bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-n", "20", "-r", "2", "--sweep", "slots=0,all", "--sweep", "lookahead=0,1")
	if want := []string{"slots 0, lookahead 0", "slots 0, lookahead 1", "slots all"}; !slices.Equal(armNames(report), want) {
		t.Fatalf("arms are %q, want %q: the lookahead has nothing to read with all slots", armNames(report), want)
	}
	demand, guessed, all := report.Arms[0], report.Arms[1], report.Arms[2]
	if demand.Cost.MissedBytes != *demand.BytesPerToken {
		t.Errorf("on demand %v bytes are missed, %v read", demand.Cost.MissedBytes, *demand.BytesPerToken)
	}
	if guessed.Cost.MissedBytes > *guessed.BytesPerToken || guessed.Cost.MissedExperts <= 0 {
		t.Errorf("with guesses %v bytes are missed, %v read", guessed.Cost.MissedBytes, *guessed.BytesPerToken)
	}
	if all.Cost.MissedBytes >= demand.Cost.MissedBytes || demand.Cost.Callbacks != 2*4 || demand.Cost.CallbackMS <= 0 {
		t.Errorf("with all slots %v bytes are missed; %v callbacks in %v ms", all.Cost.MissedBytes, demand.Cost.Callbacks, demand.Cost.CallbackMS)
	}
}

func TestBenchMeasuresPromptsOfSeveralLengths(t *testing.T) {
	report, stdout, _ := bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-n", "0", "-r", "1", "--prefill", "8,32", "-ub", "16", "--les-slots", "1", "--les-ready-first=false")
	if want := []string{"prompt 8", "prompt 32"}; !slices.Equal(armNames(report), want) {
		t.Fatalf("arms are %q, want %q: %s", armNames(report), want, stdout)
	}
	for _, arm := range report.Arms {
		if arm.Cost.Phase != "prefill" || arm.Cost.Tokens != arm.PromptTokens || arm.Prefill.Median <= 0 || len(arm.Decode.Samples) != 0 || arm.ReadyFirst {
			t.Errorf("%s is %+v, %+v", arm.Name, arm, arm.Cost)
		}
	}
}

// Layers that are not fused look their experts up once for each projection.
func TestUnfusedLayersAreCountedOnce(t *testing.T) {
	report, _, _ := bench(t, "-m", tinyModel(t, "tiny-qwen3moe-scaled"), "-n", "20", "-r", "1", "--les-slots", "floor")
	if arm := report.Arms[0]; arm.PerLayer[0].Lookups != 20*2 || *arm.PreviousOverlap > 0.9 {
		t.Errorf("report is %+v, overlap %v", arm.PerLayer, *arm.PreviousOverlap)
	}
}

func TestBenchRefusesATextThatIsTooShort(t *testing.T) {
	path, model := benchText(t), tinyModel(t, "tiny-qwen3moe")
	long := []string{"-m", model, "-f", path, "-n", "10000", "-r", "5"}
	expectFailure(t, exitError, []string{path, "fewer than the 50004"}, append([]string{"bench"}, long...)...)
	expectFailure(t, exitError, []string{path, "fewer than the 50004", `arm "slots 0"`}, append([]string{"bench", "--sweep", "slots=0,1"}, long...)...)
	if err := os.WriteFile(path, []byte("for"), 0o600); err != nil {
		t.Fatal(err)
	}
	drafts := []string{"-m", model, "-f", path, "-n", "1", "-r", "1", "--warmup", "1", "--draft-type", "synthetic", "--draft-acceptance", "0.5", "--draft-max", "7"}
	expectFailure(t, exitError, []string{path, "fewer than the 24"}, append([]string{"bench"}, drafts...)...)
	expectFailure(t, exitError, []string{"none.txt"}, "bench", "-m", model, "-f", "none.txt")
}

func TestBenchRefusesContradictingFlags(t *testing.T) {
	cases := map[string]struct {
		args []string
		want []string
	}{
		"text and seed":        {[]string{"-f", "x", "--seed", "2"}, []string{"--file (-f) and --seed"}},
		"list of slots":        {[]string{"--les-slots", "1,2"}, []string{"--les-slots", "list", "--sweep slots=1,2"}},
		"sweep without name":   {[]string{"--sweep", "1,2"}, []string{"--sweep", "NAME=VALUE"}},
		"sweep of nothing":     {[]string{"--sweep", "slots="}, []string{"--sweep", "NAME=VALUE"}},
		"unknown dimension":    {[]string{"--sweep", "colour=1"}, []string{"--sweep", "colour", "lookahead"}},
		"dimension twice":      {[]string{"--sweep", "lanes=1", "--sweep", "lanes=2"}, []string{"--sweep", "twice"}},
		"slots and budget":     {[]string{"--sweep", "slots=1", "--sweep", "budget=1G"}, []string{"slots and budget contradict"}},
		"odd slots":            {[]string{"--sweep", "slots=1,some"}, []string{"--sweep", "some"}},
		"no lanes":             {[]string{"--sweep", "lanes=0"}, []string{"--sweep", "0 is not between 1"}},
		"prompt in a sweep":    {[]string{"--sweep", "prompt=1"}, []string{"--prompt-tokens"}},
		"odd ready-first":      {[]string{"--sweep", "ready-first=maybe"}, []string{"ready-first", "maybe"}},
		"odd prompt":           {[]string{"-p", "1,x"}, []string{"--prompt-tokens", `"x"`}},
		"odd memory":           {[]string{"--memory", "some"}, []string{"--memory", "some"}},
		"odd bandwidth":        {[]string{"--bandwidth", "none,fast"}, []string{"--bandwidth", "fast"}},
		"odd processes":        {[]string{"--processes", "many"}, []string{"--processes", "many"}},
		"stock mode alone":     {[]string{"--stock-load", "none"}, []string{"--stock-load needs --stock"}},
		"odd stock mode":       {[]string{"--stock", "sh", "--stock-load", "fast"}, []string{"--stock-load", "fast"}},
		"off with ready-first": {[]string{"--les", "off", "--les-ready-first=false"}, []string{"--les off and --les-ready-first"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			expectFailure(t, exitUsage, c.want, append([]string{"bench", "-m", "x"}, c.args...)...)
		})
	}
	expectFailure(t, exitError, []string{"--stock", "no/such/bench"}, "bench", "-m", "x", "--stock", "no/such/bench")
}

func TestBenchRefusesASweepOfSlotsBesideFlagsThatSetThem(t *testing.T) {
	for want, args := range map[string][]string{
		"--sweep slots and --les off":         {"--sweep", "slots=0,1", "--les", "off"},
		"--sweep slots and --les-slots":       {"--sweep", "slots=0,1", "--les-slots", "2"},
		"--sweep slots and --les-budget":      {"--sweep", "slots=off", "--les-budget", "1G"},
		"--sweep budget and --les-budget con": {"--sweep", "budget=1G,2G", "--les-budget", "1G"},
	} {
		expectFailure(t, exitUsage, []string{want}, append([]string{"bench", "-m", "x"}, args...)...)
	}
}

// More than all of a ceiling is a ceiling that was measured wrong; which part of it, and
// of what, is said.
func TestArmsAboveTheirCeilingAreExplained(t *testing.T) {
	speeds := func(samples ...float64) spread { return newSpread(samples) }
	run := func(direct bool, bandwidth, resident float64) *benchReport {
		report := &benchReport{Arms: []armReport{
			{Name: "slots 2", engineSummary: engineSummary{LES: "on"}, DecodeTokens: 1, Decode: speeds(10, 10, 10), Cost: &tokenCost{MissedBytes: 1 << 20}},
			{Name: "slots all", engineSummary: engineSummary{LES: "on"}, DecodeTokens: 1, Decode: speeds(1, resident, 2*resident), Cost: &tokenCost{}},
		}}
		r := &benchRun{flash: []*flashRun{{probe: probeSettings{Paths: []string{"x"}}, results: []probeResult{{bandwidth, 4, direct}}}}}
		for _, slots := range []int{2, slotsAll} {
			arm := &armRun{paths: []string{"x"}}
			arm.Mode, arm.Slots = lesOn, slots
			r.arms = append(r.arms, arm)
		}
		for i := range report.Arms {
			report.Arms[i].Roofline = r.roofline(report, i)
		}
		return report
	}
	const prefix = "slots 2 is above its ceiling: "
	for want, report := range map[string]*benchReport{
		"": run(true, 1<<30, 20),
		prefix + "slots all, with all experts in memory, was slower (1.000 to 16.000 tok/s): it was disturbed":                                                                           run(true, 1<<30, 8),
		prefix + "missed experts came at 10.00 MiB/s, more than the flash gave (5.00 MiB to 5.00 MiB): it was measured in a bad moment, or a cache below the file system holds the file": run(true, 5<<20, 20),
		prefix + "missed experts came at 10.00 MiB/s, more than the flash gave (5.00 MiB to 5.00 MiB): direct reads are refused, and the page cache holds the file":                      run(false, 5<<20, 20),
	} {
		if got := strings.Join(report.doubts(), "\n"); got != want {
			t.Errorf("got %q, want %q; %+v", got, want, report.Arms[0].Roofline)
		}
	}
}
