package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
)

const (
	draftPrompt = "func (r *Reader) Read(p []byte) (n int, err error) {\n"
	draftTokens = 40
)

// floatModel is a model with all matrices in F32, in which steps of different
// widths differ least.
func floatModel(t *testing.T, from string) string {
	t.Helper()
	tool := upstreamTool(t, "llama-quantize")
	path := filepath.Join(t.TempDir(), "f32.gguf")
	if out, err := exec.Command(tool, "--allow-requantize", from, path, "F32").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

func referenceDrafter() string { return filepath.Join("..", "..", "models", "les-ref-dspark.gguf") }

// given proposes what a text goes on with, wrong at one position of each draft.
type given struct {
	text  []llama.Token // prompt and answer
	wrong int           // position, negative for none
	most  int
}

func (g *given) Max() int                                  { return g.most }
func (g *given) Sequential() bool                          { return false }
func (g *given) Clear()                                    {}
func (g *given) Begin([]llama.Token)                       {}
func (g *given) Process(*llama.Batch, []llama.Token) error { return nil }
func (g *given) Accept(int)                                {}
func (g *given) Close()                                    {}
func (g *given) Draft(tokens []llama.Token, n int, draft []llama.Token, confidences []float32) ([]llama.Token, []float32) {
	for i := range min(n, len(g.text)-len(tokens)) {
		token := g.text[len(tokens)+i]
		if i == g.wrong {
			token = (token + 1) % 100
		}
		draft = append(draft, token)
	}
	return draft, confidences
}

// openTest opens a session for drafts of at most eight tokens.
func openTest(t *testing.T, path, slots string) *session {
	t.Helper()
	les := lesOptions{mode: lesOff, slots: slotsFromBudget}
	if slots != "" {
		n, err := parseSlots("les-slots", slots)
		if err != nil {
			t.Fatal(err)
		}
		les = lesOptions{mode: lesOn, slots: n, lookahead: 1}
	}
	s, err := openSession(t.Context(), sessionOptions{
		path: path, les: les, line: newProgressLine(io.Discard), log: io.Discard,
		context: llama.ContextParams{Tokens: 512, Batch: 128, Ubatch: 128, Seqs: 1, Threads: 2, Rollback: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// answerOf generates greedily, or with a temperature, and returns the text.
func answerOf(t *testing.T, s *session, prompt []llama.Token, params llama.SamplerParams) string {
	t.Helper()
	s.lctx.Clear()
	var out bytes.Buffer
	g := &generation{session: s, out: &out, limit: draftTokens, line: newProgressLine(io.Discard)}
	if err := g.run(context.Background(), prompt, params); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// plainText is what the model writes without drafts, as tokens.
func plainText(t *testing.T, s *session, prompt []llama.Token) []llama.Token {
	t.Helper()
	s.lctx.Clear()
	batch := llama.NewBatch(128)
	defer batch.Close()
	text := slices.Clone(prompt)
	for i, token := range prompt {
		batch.Add(token, i, 0, i == len(prompt)-1)
	}
	sampler, err := llama.NewSampler(s.model, llama.SamplerParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer sampler.Close()
	for range draftTokens + 8 {
		if err := s.decode(batch); err != nil {
			t.Fatal(err)
		}
		token := sampler.Sample(s.lctx, -1)
		text = append(text, token)
		batch.Clear()
		batch.Add(token, len(text)-1, 0, true)
	}
	return text
}

// draftWith puts a given drafter into a session.
func draftWith(t *testing.T, s *session, drafter proposer, width int) {
	t.Helper()
	s.drafting = &drafting{kind: "given"}
	if err := s.drafting.start(drafter, width, &modelFile{}); err != nil {
		t.Fatal(err)
	}
}

// TestDraftsWrongAtEachPositionChangeNothing is greedy, on attention and on
// recurrent layers, for each width and each position of a wrong token.
func TestDraftsWrongAtEachPositionChangeNothing(t *testing.T) {
	models := map[string]string{"attention": referenceModel, "hybrid": tinyModel(t, "tiny-qwen35moe")}
	for name, from := range models {
		for _, slots := range []string{"", "floor"} {
			t.Run(name+"/"+slotsTitle(slots), func(t *testing.T) {
				s := openTest(t, floatModel(t, from), slots)
				prompt, err := s.model.Tokenize(draftPrompt, true)
				if err != nil {
					t.Fatal(err)
				}
				want := answerOf(t, s, prompt, llama.SamplerParams{})
				text := plainText(t, s, prompt)
				for width := 1; width <= 8; width++ {
					for wrong := -1; wrong < width; wrong++ {
						if slots != "" && wrong > 0 && wrong < width-1 {
							continue // streamed steps are those of resident ones, bit for bit
						}
						draftWith(t, s, &given{text: text, wrong: wrong, most: 8}, width)
						if got := answerOf(t, s, prompt, llama.SamplerParams{}); got != want {
							t.Fatalf("width %d, wrong at %d:\n%q\nwithout drafts:\n%q", width, wrong, got, want)
						}
						stats := s.drafting.control.Stats()
						if wrong < 0 && stats.Accepted < stats.Verified || wrong == 0 && stats.Accepted > 0 {
							t.Fatalf("width %d, wrong at %d: %d of %d accepted", width, wrong, stats.Accepted, stats.Verified)
						}
					}
				}
			})
		}
	}
}

func slotsTitle(slots string) string {
	if slots == "" {
		return "resident"
	}
	return slots
}

// TestStreamedDraftsAreIdenticalToResidentOnes compares all logits of verify
// steps of each width as bits.
func TestStreamedDraftsAreIdenticalToResidentOnes(t *testing.T) {
	for name, path := range map[string]string{"attention": referenceModel, "hybrid": tinyModel(t, "tiny-qwen35moe")} {
		t.Run(name, func(t *testing.T) {
			resident, streamed := openTest(t, path, ""), openTest(t, path, "floor")
			tokens, err := resident.model.Tokenize(strings.Repeat(draftPrompt, 8), true)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for width := 1; width <= 9; width++ {
				for keep := range width {
					if at+width > len(tokens) {
						return
					}
					a, b := verifyStep(t, resident, tokens[at:at+width], at, keep), verifyStep(t, streamed, tokens[at:at+width], at, keep)
					if !bytes.Equal(a, b) {
						t.Fatalf("a step of %d tokens at %d differs", width, at)
					}
					at += keep + 1
				}
			}
		})
	}
}

// verifyStep decodes tokens, takes back all behind the first keep+1, and returns
// the bits of all logits.
func verifyStep(t *testing.T, s *session, tokens []llama.Token, at, keep int) (bits []byte) {
	t.Helper()
	batch := llama.NewBatch(len(tokens))
	defer batch.Close()
	for i, token := range tokens {
		batch.Add(token, at+i, 0, true)
	}
	if err := s.decode(batch); err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		logits, err := s.lctx.Logits(i)
		if err != nil {
			t.Fatal(err)
		}
		bits = fmt.Appendf(bits, "%x", logits)
	}
	if err := s.lctx.Truncate(0, at+keep+1); err != nil {
		t.Fatal(err)
	}
	return bits
}

// TestDraftersOfLlamaCppChangeNothing runs the types that can be run here.
func TestDraftersOfLlamaCppChangeNothing(t *testing.T) {
	model := floatModel(t, referenceModel)
	hybrid := floatModel(t, tinyModel(t, "tiny-qwen35moe-nextn"))
	eagle := floatModel(t, tinyModel(t, "tiny-qwen3moe"))
	want := map[string]string{}
	for _, test := range []struct {
		name, model string
		flags       []string
	}{
		{"ngram-simple", model, []string{"--draft-type", "ngram-simple"}},
		{"ngram-map-k", model, []string{"--draft-type", "ngram-map-k"}},
		{"ngram-map-k4v", model, []string{"--draft-type", "ngram-map-k4v"}},
		{"ngram-mod", model, []string{"--draft-type", "ngram-mod"}},
		{"ngram-cache", model, []string{"--draft-type", "ngram-cache"}},
		{"the model itself", model, []string{"--draft", referenceModel}},
		{"draft-dspark", model, []string{"--draft", referenceDrafter()}},
		{"draft-dflash", model, []string{"--draft", referenceDrafter(), "--draft-type", "draft-dflash", "--draft-max", "6"}},
		{"ngram-cache on recurrent layers", hybrid, []string{"--draft-type", "ngram-cache"}},
		{"draft-mtp", hybrid, []string{"--draft-type", "draft-mtp"}},
		{"draft-eagle3", eagle, []string{"--draft", tinyModel(t, "tiny-eagle3")}},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := []string{"run", "-m", test.model, "-p", draftPrompt, "-n", "64", "--temp", "0", "-c", "512", "--les-slots", "floor"}
			if want[test.model] == "" {
				stdout, stderr, code := lescli(run...)
				if code != exitOK {
					t.Fatal(stderr)
				}
				want[test.model] = stdout
			}
			for _, width := range []string{"0", "1", "3", "6"} {
				stdout, stderr, code := lescli(append(append(slices.Clone(run), test.flags...), "--draft-width", width)...)
				if code != exitOK || stdout != want[test.model] {
					t.Errorf("width %s: exit code %d, %q, without drafts %q; %s", width, code, stdout, want[test.model], stderr)
				}
			}
		})
	}
}

// TestDrafterKeepsNothingOfTheRequestBefore runs long, short and long prompts in
// one session.
func TestDrafterKeepsNothingOfTheRequestBefore(t *testing.T) {
	s := openTest(t, floatModel(t, referenceModel), "")
	long, err := s.model.Tokenize(strings.Repeat(draftPrompt, 12), true)
	if err != nil {
		t.Fatal(err)
	}
	prompts := [][]llama.Token{long, long[:8], long, long[20:60]}
	var want []string
	for _, prompt := range prompts {
		want = append(want, answerOf(t, s, prompt, llama.SamplerParams{}))
	}
	for _, opts := range []draftOptions{
		{kind: "ngram-cache", max: 4, given: true}, {kind: "draft-simple", path: referenceModel, max: 4, given: true, width: 4},
	} {
		var err error
		if s.drafting, err = openDrafting(opts, &modelFile{}, s.lctx); err != nil {
			t.Fatal(err)
		}
		for i, prompt := range prompts {
			if got := answerOf(t, s, prompt, llama.SamplerParams{}); got != want[i] {
				t.Errorf("%s, prompt %d: %q, want %q", opts.kind, i, got, want[i])
			}
		}
		if opts.width > 0 {
			if stats := s.drafting.control.Stats(); stats.Accepted*10 < stats.Verified*9 {
				t.Errorf("the model accepts %d of %d tokens that it drafted itself", stats.Accepted, stats.Verified)
			}
		}
		s.drafting.Close()
		s.drafting = nil
	}
}

// TestControllerLearnsFromTheEngine checks what a step tells it.
func TestControllerLearnsFromTheEngine(t *testing.T) {
	s := openTest(t, referenceModel, "floor")
	prompt, err := s.model.Tokenize(draftPrompt, true)
	if err != nil {
		t.Fatal(err)
	}
	draftWith(t, s, &given{text: plainText(t, s, prompt), wrong: 2, most: 8}, 4)
	answerOf(t, s, prompt, llama.SamplerParams{})
	var wide dspark.WidthStats = s.drafting.control.Stats().Widths[4]
	if wide.Steps == 0 || wide.Experts/wide.Steps <= 24 || wide.ReadBytes == 0 || wide.StepNS == 0 {
		t.Errorf("%+v: a step of 5 tokens needs more than the 24 experts of one", wide)
	}
}

// TestBlockDrafterTellsHowSureItIs checks that tokens are accepted more often
// where the drafter is surer.
func TestBlockDrafterTellsHowSureItIs(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.json")
	_, stderr, code := lescli("run", "-m", referenceModel, "--draft", referenceDrafter(), "-p", draftPrompt, "-n", "400",
		"-c", "512", "--temp", "0", "--les", "off", "--draft-width", "7", "--json", report)
	if code != exitOK {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var sum summary
	if err := json.Unmarshal(text, &sum); err != nil {
		t.Fatal(err)
	}
	if w := sum.Draft.Widths[0]; w.Width == 0 && w.Steps > 2 {
		t.Errorf("%d of %d steps have no draft", w.Steps, sum.Draft.Steps)
	}
	var low, high reliability
	for _, r := range sum.Draft.Confidences {
		side := &low
		if r.Confidence >= 0.5 {
			side = &high
		}
		side.Accepted += r.Accepted * float64(r.Tokens)
		side.Tokens += r.Tokens
	}
	if low.Tokens == 0 || high.Tokens == 0 || high.Accepted/float64(high.Tokens) <= low.Accepted/float64(low.Tokens) {
		t.Errorf("sure of %d tokens, %.0f accepted; unsure of %d, %.0f accepted", high.Tokens, high.Accepted, low.Tokens, low.Accepted)
	}
}

// TestDraftersExpertsHaveSlotsOfTheirOwn streams a drafter with experts from few
// slots and from many: the model's own reads stay what they were.
func TestDraftersExpertsHaveSlotsOfTheirOwn(t *testing.T) {
	model := floatModel(t, referenceModel)
	run := []string{"run", "-m", model, "-p", draftPrompt, "-n", "32", "--temp", "0", "-c", "256", "--les-slots", "floor", "--les-lookahead", "0"}
	want, stderr, code := lescli(run...)
	if code != exitOK {
		t.Fatal(stderr)
	}
	var few, many summary
	for budget, sum := range map[string]*summary{"4M": &few, "64M": &many} {
		report := filepath.Join(t.TempDir(), "report.json")
		got, stderr, code := lescli(append(slices.Clone(run), "--draft", referenceModel, "--draft-width", "3", "--draft-budget", budget, "--json", report)...)
		if code != exitOK || got != want {
			t.Fatalf("%s: exit code %d, %q, without drafts %q; %s", budget, code, got, want, stderr)
		}
		if !strings.Contains(stderr, "drafter: ") {
			t.Errorf("%s: nothing is said of the drafter's slots: %s", budget, stderr)
		}
		*sum = readSummary(t, report)
	}
	if few.Draft.Slots >= 144 || many.Draft.Slots != 144 || few.Draft.ReadBytes <= many.Draft.ReadBytes {
		t.Errorf("few slots: %d, %d bytes read; many: %d, %d", few.Draft.Slots, few.Draft.ReadBytes, many.Draft.Slots, many.Draft.ReadBytes)
	}
	if few.DemandBytes != many.DemandBytes || few.DemandBytes == 0 {
		t.Errorf("the model itself read %d bytes beside few slots of the drafter, %d beside many", few.DemandBytes, many.DemandBytes)
	}
	expectFailure(t, exitError, []string{"--draft-budget", "below the floor"}, append(slices.Clone(run), "--draft", referenceModel, "--draft-budget", "64K")...)
	expectFailure(t, exitUsage, []string{"--draft-budget without --draft"}, append(slices.Clone(run), "--draft-budget", "4M")...)
}
