package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

func benchOf(t *testing.T, flags ...string) (report benchReport, table string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bench.json")
	stdout, stderr, code := lescli(append([]string{"bench", "--json", path, "--warmup", "2", "-r", "2"}, flags...)...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return report, stdout
}

// TestBenchComparesWidths has the reference model and its drafter.
func TestBenchComparesWidths(t *testing.T) {
	report, table := benchOf(t, "-m", referenceModel, "--draft", referenceDrafter(), "-f", filepath.Join("..", "..", "models", "heldout.txt"),
		"-p", "32", "-n", "24", "-t", "1", "--draft-widths", "0,2,5", "--sweep", "slots=off,1")
	if len(report.Arms) != 8 {
		t.Fatalf("%d arms", len(report.Arms))
	}
	for i, arm := range report.Arms {
		d := arm.Draft
		want := []int{widthPlain, widthChosen, 2, 5}[i%4]
		if d == nil || d.Width != want || d.Group != i/4 || len(d.OfOracle.Samples) != 2 || d.Oracle == "" || strings.Contains(d.Oracle, "controller") {
			t.Fatalf("%s: %+v", arm.Name, d)
		}
		if want == widthPlain {
			if d.Counts != nil || d.OfPlain.Median != 1 {
				t.Errorf("%s: %+v", arm.Name, d)
			}
			continue
		}
		if d.Counts.Steps == 0 || math.Abs(d.TokensStep*float64(d.Counts.Steps)-2*24) > 0.01 {
			t.Errorf("%s: %.2f tokens a step in %d steps are not 48 tokens", arm.Name, d.TokensStep, d.Counts.Steps)
		}
		if want > 0 && (d.Counts.Accepted == 0 || len(d.Counts.Confidences) == 0) {
			t.Errorf("%s: nothing was accepted, or the drafter says nothing: %+v", arm.Name, d.Counts)
		}
		// All arms follow one answer, so equal widths are accepted alike.
		if i >= 4 && want > 0 && d.Counts.Accepted != report.Arms[i-4].Draft.Counts.Accepted {
			t.Errorf("%s: %d accepted, resident %d", arm.Name, d.Counts.Accepted, report.Arms[i-4].Draft.Counts.Accepted)
		}
	}
	for _, part := range []string{"of best", "steps by verified tokens", "confidences of verified tokens"} {
		if !strings.Contains(table, part) {
			t.Errorf("no %q in %s", part, table)
		}
	}
}

// TestSyntheticDraftsAreAcceptedAsAsked counts what becomes of many drafts.
func TestSyntheticDraftsAreAcceptedAsAsked(t *testing.T) {
	report, _ := benchOf(t, "-m", tinyModel(t, "tiny-qwen35moe"), "--draft-type", "synthetic", "--draft-acceptance", "0.8,0.5", "--draft-noise", "0",
		"-n", "250", "-t", "1", "--draft-widths", "2", "--draft-max", "4", "--les-slots", "floor")
	fixed := report.Arms[2].Draft.Counts
	// A draft of two gains 0.8 + 0.8 * 0.5 tokens; the deviation of 225 is 0.05.
	if gain := float64(fixed.Accepted) / float64(fixed.Steps); math.Abs(gain-1.2) > 0.2 {
		t.Errorf("%.2f accepted a step, want 1.2", gain)
	}
	for _, r := range fixed.Confidences {
		if r.Tokens > 50 && math.Abs(r.Accepted-r.Confidence) > 0.25 {
			t.Errorf("of %d tokens with confidence %.2f, %.2f were accepted", r.Tokens, r.Confidence, r.Accepted)
		}
	}
	if w := fixed.Widths[len(fixed.Widths)-1]; w.Width != 2 || w.Experts <= 8 || w.ReadBytes == 0 {
		t.Errorf("%+v: a step of three tokens needs more than the 8 experts of one", w)
	}
}

func TestSyntheticDraftsHaveTheSameLuckInAllArms(t *testing.T) {
	text := make([]llama.Token, 64)
	s := &synthetic{syntheticDraft: syntheticDraft{Acceptance: []float64{0.5}, Seed: 3}, max: 8, vocab: 100, text: text}
	long, _ := s.Draft(text[:10], 8, nil, nil)
	for i := range long {
		short, confidences := s.Draft(text[:10+i], 1, nil, nil)
		if short[0] != long[i] || len(confidences) > 0 {
			t.Errorf("place %d is %d in one draft and %d in another", i, long[i], short[0])
		}
	}
	if end, _ := s.Draft(text[:62], 8, nil, nil); len(end) != 2 {
		t.Errorf("%d tokens drafted where 2 are left", len(end))
	}
}

func TestBenchRefusesDraftsThatCannotBeMeasured(t *testing.T) {
	bench := func(flags ...string) []string {
		return append([]string{"bench", "-m", referenceModel}, flags...)
	}
	synthetic := func(flags ...string) []string {
		return bench(append([]string{"--draft-type", "synthetic", "--draft-acceptance", "0.5"}, flags...)...)
	}
	for name, test := range map[string]struct {
		parts []string
		args  []string
	}{
		"nothing to answer":     {[]string{"--prompt-tokens (-p) is needed"}, bench("--draft", referenceDrafter())},
		"widths alone":          {[]string{"--draft-widths without"}, bench("--draft-widths", "1")},
		"acceptance alone":      {[]string{"--draft-acceptance needs"}, bench("--draft-acceptance", "0.5")},
		"no acceptance":         {[]string{"needs --draft-acceptance"}, bench("--draft-type", "synthetic")},
		"acceptance above one":  {[]string{`--draft-acceptance: "1.5"`}, bench("--draft-type", "synthetic", "--draft-acceptance", "0.5,1.5")},
		"too many positions":    {[]string{"--draft-acceptance: 3"}, bench("--draft-type", "synthetic", "--draft-acceptance", "1,1,1", "--draft-max", "2")},
		"width above depth":     {[]string{`--draft-widths: "9"`}, synthetic("--draft-widths", "1,9")},
		"noise above one":       {[]string{"--draft-noise: 2"}, synthetic("--draft-noise", "2")},
		"a drafter as well":     {[]string{"--draft and --draft-type synthetic"}, synthetic("--draft", referenceDrafter())},
		"several prompts":       {[]string{"--prompt-tokens (-p): a list"}, synthetic("-p", "1,2")},
		"the ladder":            {[]string{"--ladder and --draft"}, synthetic("--ladder")},
		"nothing to draft":      {[]string{"-n: 0"}, synthetic("-n", "0", "-p", "4")},
		"a temperature for fed": {[]string{"--draft-temp"}, synthetic("--draft-temp", "1")},
	} {
		t.Run(name, func(t *testing.T) { expectFailure(t, exitUsage, test.parts, test.args...) })
	}
}
