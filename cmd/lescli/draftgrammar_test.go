package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// What the model would not write by itself, so that what is drafted for it is
// against the grammar most of the time.
const draftGrammar = `root ::= "{" item ("," item)* "}"
item ::= [a-c] "=" ("é" | "ü" | [0-9])+ ";"
`

// TestDraftsKeepToTheGrammar compares what is written under a grammar, and a
// schema, with and without drafts.
func TestDraftsKeepToTheGrammar(t *testing.T) {
	model := floatModel(t, referenceModel)
	grammar := filepath.Join(t.TempDir(), "rules.gbnf")
	if err := os.WriteFile(grammar, []byte(draftGrammar), 0o600); err != nil {
		t.Fatal(err)
	}
	const schema = `{"type":"object","properties":{"kind":{"enum":["reader","writer"]},"size":{"type":"integer"}},"required":["kind","size"],"additionalProperties":false}`
	for name, rules := range map[string][]string{"grammar": {"--grammar-file", grammar}, "schema": {"--json-schema", schema}} {
		run := append([]string{"run", "-m", model, "-p", draftPrompt, "-n", "60", "--temp", "0", "-c", "512", "--les-slots", "floor"}, rules...)
		want, stderr, code := lescli(run...)
		if code != exitOK {
			t.Fatal(stderr)
		}
		var value struct{ Kind string }
		if name == "schema" && (json.Unmarshal([]byte(want), &value) != nil || value.Kind != "reader" && value.Kind != "writer") {
			t.Errorf("%q is not of the schema", want)
		}
		for _, flags := range [][]string{{"--draft", referenceDrafter()}, {"--draft", referenceModel}, {"--draft-type", "ngram-cache"}} {
			for _, width := range []string{"0", "1", "7"} {
				report := filepath.Join(t.TempDir(), "report.json")
				got, stderr, code := lescli(slices.Concat(run, flags, []string{"--draft-width", width, "--json", report})...)
				if code != exitOK || got != want {
					t.Errorf("%s, %v, width %s: exit code %d, %q, without drafts %q; %s", name, flags, width, code, got, want, stderr)
				}
				if draft := readSummary(t, report).Draft; width != "0" && flags[0] == "--draft" && draft.Verified == draft.Accepted {
					t.Errorf("%s, %v, width %s: no draft was against the grammar", name, flags, width)
				}
			}
		}
	}
}

func readSummary(t *testing.T, path string) (sum summary) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &sum)
	}
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestBadGrammarsAreRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	run := func(flags ...string) []string {
		return append([]string{"run", "-m", referenceModel, "-p", "x", "-n", "4"}, flags...)
	}
	for name, test := range map[string]struct {
		code  int
		parts []string
		args  []string
	}{
		"both":           {exitUsage, []string{"contradict"}, run("--grammar-file", "a", "--json-schema", "{}")},
		"no file":        {exitError, []string{"absent.gbnf"}, run("--grammar-file", "absent.gbnf")},
		"empty":          {exitError, []string{"empty"}, run("--grammar-file", file("empty.gbnf", " \n"))},
		"no root":        {exitError, []string{"grammar is refused"}, run("--grammar-file", file("rootless.gbnf", "x ::= \"a\"\n"))},
		"no grammar":     {exitError, []string{"grammar is refused"}, run("--grammar-file", file("bad.gbnf", "root ::= (\n"))},
		"no JSON":        {exitError, []string{"--json-schema"}, run("--json-schema", "{")},
		"no schema file": {exitError, []string{"absent.json"}, run("--json-schema", "@absent.json")},
		"no schema":      {exitError, []string{"schema.json"}, run("--json-schema", "@"+file("schema.json", `{"type":"nothing"}`))},
	} {
		t.Run(name, func(t *testing.T) { expectFailure(t, test.code, test.parts, test.args...) })
	}
}

// cancelling cancels after so many writes.
type cancelling struct {
	io.Writer
	left   int
	cancel func()
}

func (c *cancelling) Write(p []byte) (int, error) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return c.Writer.Write(p)
}

// TestACancelledDraftLeavesNothing ends requests at each place of a draft, and
// runs another one in the same session.
func TestACancelledDraftLeavesNothing(t *testing.T) {
	for name, from := range map[string]string{"attention": referenceModel, "hybrid": tinyModel(t, "tiny-qwen35moe")} {
		s := openTest(t, floatModel(t, from), "floor")
		prompt, err := s.model.Tokenize(draftPrompt, true)
		if err != nil {
			t.Fatal(err)
		}
		other := prompt[3:]
		want := answerOf(t, s, other, llama.SamplerParams{Grammar: draftGrammar})
		text := plainText(t, s, prompt)
		for left := 1; left <= 9; left++ {
			draftWith(t, s, &given{text: text, wrong: 5, most: 8}, 8)
			s.lctx.Clear()
			ctx, cancel := context.WithCancel(t.Context())
			g := &generation{session: s, out: &cancelling{io.Discard, left, cancel}, limit: draftTokens, line: newProgressLine(io.Discard)}
			if err := g.run(ctx, prompt, llama.SamplerParams{}); err != nil || g.stop != stopInterrupted {
				t.Fatalf("%s: stopped by %q, %v", name, g.stop, err)
			}
			if got := answerOf(t, s, other, llama.SamplerParams{Grammar: draftGrammar}); got != want {
				t.Errorf("%s, after %d tokens: %q, want %q", name, left, got, want)
			}
		}
		s.drafting = nil
	}
}
