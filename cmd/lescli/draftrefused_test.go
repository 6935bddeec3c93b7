package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

func TestDraftersThatDoNotFitAreRefused(t *testing.T) {
	model := referenceModel
	other := tinyModel(t, "tiny-qwen3")
	run := func(flags ...string) []string {
		return append([]string{"run", "-m", model, "-p", "x", "-n", "1"}, flags...)
	}
	for name, test := range map[string]struct {
		code  int
		parts []string
		args  []string
	}{
		"no such type":                   {exitUsage, []string{"--draft-type", `"magic"`}, run("--draft-type", "magic")},
		"no model":                       {exitUsage, []string{"--draft is missing"}, run("--draft-type", "draft-dspark")},
		"model for n-grams":              {exitUsage, []string{"contradict"}, run("--draft-type", "ngram-mod", "--draft", other)},
		"depth of zero":                  {exitUsage, []string{"--draft-max: 0"}, run("--draft-type", "ngram-mod", "--draft-max", "0")},
		"too deep":                       {exitUsage, []string{"--draft-max: 65"}, run("--draft-type", "ngram-mod", "--draft-max", "65")},
		"width above depth":              {exitUsage, []string{"--draft-width: 5"}, run("--draft-type", "ngram-mod", "--draft-max", "4", "--draft-width", "5")},
		"depth alone":                    {exitUsage, []string{"--draft-max without --draft"}, run("--draft-max", "4")},
		"no file":                        {exitError, []string{"absent.gguf"}, run("--draft", "absent.gguf")},
		"other vocabulary":               {exitError, []string{other, "vocabulary"}, run("--draft", other)},
		"no block drafter":               {exitError, []string{model, "architecture dflash"}, run("--draft", model, "--draft-type", "draft-dspark")},
		"deeper than a block":            {exitError, []string{"drafts of 8 tokens", "made for 7"}, run("--draft", referenceDrafter(), "--draft-max", "8")},
		"block drafter of another model": {exitError, []string{"vocabulary"}, append(run("--draft", referenceDrafter()), "-m", other)},
		"no EAGLE-3 drafter":             {exitError, []string{model, "architecture eagle3"}, run("--draft", model, "--draft-type", "draft-eagle3")},
		"layer the model does not have":  {exitError, []string{"reads layer 99"}, run("--draft", editedDrafter(t, 99))},
		"layer below zero":               {exitError, []string{"reads layer -1"}, run("--draft", editedDrafter(t, 1<<32-1))},
		"block drafter alone":            {exitError, []string{"dflash"}, run("--draft", referenceDrafter(), "--draft-type", "draft-simple")},
		"step smaller than a draft":      {exitError, []string{"--ubatch: 4", "drafts of 7: 8 is the least"}, run("--draft", referenceDrafter(), "--ubatch", "4")},
		"no NextN block":                 {exitError, []string{"no NextN block"}, run("--draft-type", "draft-mtp")},
	} {
		t.Run(name, func(t *testing.T) { expectFailure(t, test.code, test.parts, test.args...) })
	}
}

// editedDrafter is the block drafter of the reference model with its first
// layer replaced by another one.
func editedDrafter(t *testing.T, layer uint32) string {
	t.Helper()
	content, err := os.ReadFile(referenceDrafter())
	if err != nil {
		t.Fatal(err)
	}
	const key = "dflash.target_layers"
	at := bytes.Index(content, []byte(key))
	if at < 0 {
		t.Fatalf("%s has no %s", referenceDrafter(), key)
	}
	// The key, the types of array and element, the count, the elements.
	binary.LittleEndian.PutUint32(content[at+len(key)+4+4+8:], layer)
	path := filepath.Join(t.TempDir(), "edited.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
