package main

import "testing"

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
		"block drafter alone":            {exitError, []string{"dflash"}, run("--draft", referenceDrafter(), "--draft-type", "draft-simple")},
		"no NextN block":                 {exitError, []string{"no NextN block"}, run("--draft-type", "draft-mtp")},
	} {
		t.Run(name, func(t *testing.T) { expectFailure(t, test.code, test.parts, test.args...) })
	}
}
