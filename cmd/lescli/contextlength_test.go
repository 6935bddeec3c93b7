package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// The reference model was trained for 1024 tokens.
func TestContextIsTheModelsUnlessALongerOneIsAskedFor(t *testing.T) {
	const warning = "warning: --ctx (-c): 2048 is more than the 1024 tokens that the model was trained for"
	for _, c := range []struct {
		flags  []string
		tokens int
		warned bool
	}{{nil, 1024, false}, {[]string{"-c", "512"}, 512, false}, {[]string{"-c", "2048"}, 2048, true}} {
		stdout, inspectSaid, code := lescli(append([]string{"inspect", referenceModel, "--json"}, c.flags...)...)
		var inspected inspection
		if err := json.Unmarshal([]byte(stdout), &inspected); err != nil {
			t.Fatalf("exit code %d: %v: %s", code, err, inspectSaid)
		}
		path := filepath.Join(t.TempDir(), "run.json")
		_, runSaid, code := lescli(append([]string{"run", "-m", referenceModel, "-p", "x", "-n", "1", "--les-slots", "0", "--json", path}, c.flags...)...)
		var ran summary
		if err := json.Unmarshal(mustRead(t, path), &ran); err != nil {
			t.Fatalf("exit code %d: %v: %s", code, err, runSaid)
		}
		if inspected.ContextTokens != c.tokens || ran.ContextTokens != c.tokens {
			t.Errorf("%v: %d and %d tokens, want %d", c.flags, inspected.ContextTokens, ran.ContextTokens, c.tokens)
		}
		if strings.Contains(inspectSaid, warning) != c.warned || strings.Contains(runSaid, warning) != c.warned {
			t.Errorf("%v: they say %s and %s", c.flags, inspectSaid, runSaid)
		}
	}
}

// A chunk has its length by default, so that the warning says which flag sets it.
func TestChunksLongerThanTheModelWasTrainedForAreWarnedOf(t *testing.T) {
	var log strings.Builder
	const want = "warning: the model was trained for 256 tokens, and chunks have 512; --ctx (-c) makes them shorter\n"
	if tokens := contextChunk.length(512, 256, &log); tokens != 512 || log.String() != want {
		t.Errorf("%d tokens, %q", tokens, log.String())
	}
}
