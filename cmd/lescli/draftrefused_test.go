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
	other, eagle, moe := tinyModel(t, "tiny-qwen3"), tinyModel(t, "tiny-eagle3"), tinyModel(t, "tiny-qwen3moe")
	wide, nextn := tinyModel(t, "tiny-qwen3-wide"), tinyModel(t, "tiny-qwen35moe-nextn")
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
		"no file to look at":             {exitUsage, []string{"--draft is missing"}, run("--draft-type", "auto")},
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
		"step smaller than a draft":      {exitError, []string{"--ubatch (-ub): 4", "drafts of 7: 8 is the least"}, run("--draft", referenceDrafter(), "--ubatch", "4")},
		"no layers":                      {exitError, []string{"target_layers"}, run("--draft", withoutKey(t, referenceDrafter(), "dflash.target_layers"), "--draft-type", "draft-dspark")},
		"no block size":                  {exitError, []string{"block_size"}, run("--draft", withoutKey(t, referenceDrafter(), "dflash.block_size"), "--draft-type", "draft-dspark")},
		"EAGLE-3 of another vocabulary":  {exitError, []string{"vocabulary"}, run("--draft", eagle)},
		"EAGLE-3 of another width": {exitError, []string{"fc.weight", "wrong shape"},
			append(run("--draft", withNumber(t, eagle, "eagle3.target_hidden_size", 512)), "-m", moe)},
		"EAGLE-3 of another model": {exitError, []string{"reads layer 9"}, append(run("--draft", edited(t, eagle, "eagle3.target_layers",
			func(value []byte) { binary.LittleEndian.PutUint32(value[4+4+8:], 9) })), "-m", moe)},
		"EAGLE-3 without layers": {exitError, []string{"layers"}, append(run("--draft", withoutKey(t, eagle, "eagle3.target_layers")), "-m", moe)},
		"NextN block of another width": {exitError, []string{nextn, "width"},
			append(run("--draft", nextn, "--draft-type", "draft-mtp"), "-m", wide)},
		"no NextN block": {exitError, []string{"no NextN block"}, run("--draft-type", "draft-mtp")},
	} {
		t.Run(name, func(t *testing.T) { expectFailure(t, test.code, test.parts, test.args...) })
	}
}

// editedDrafter is the block drafter of the reference model with its first
// layer replaced by another one.
func editedDrafter(t *testing.T, layer uint32) string {
	// The types of array and element and the count come before the elements.
	return edited(t, referenceDrafter(), "dflash.target_layers", func(value []byte) { binary.LittleEndian.PutUint32(value[4+4+8:], layer) })
}

// withoutKey is a model in which a key has another name.
func withoutKey(t *testing.T, from, key string) string {
	return edited(t, from, key, nil)
}

// withNumber is a model with another value of a key.
func withNumber(t *testing.T, from, key string, value uint32) string {
	return edited(t, from, key, func(bytes []byte) { binary.LittleEndian.PutUint32(bytes[4:], value) })
}

// edited is a model changed behind a key: its type and value. Without a change
// the key itself becomes another one.
func edited(t *testing.T, from, key string, change func(value []byte)) string {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(key))
	if at < 0 {
		t.Fatalf("%s has no %s", from, key)
	}
	if change == nil {
		content[at+len(key)-1]++
	} else {
		change(content[at+len(key):])
	}
	path := filepath.Join(t.TempDir(), "edited.gguf")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
