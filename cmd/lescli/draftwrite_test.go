package main

import (
	"errors"
	"io"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

var errFull = errors.New("the device is full")

// failsOnce fails the write of one number and takes all others.
type failsOnce struct{ writes, bad int }

func (f *failsOnce) Write(p []byte) (int, error) {
	if f.writes++; f.writes == f.bad {
		return 0, errFull
	}
	return len(p), nil
}

func TestFailedWriteInADraftEndsTheAnswer(t *testing.T) {
	s := openTest(t, referenceModel, "")
	prompt, err := s.model.Tokenize(draftPrompt, true)
	if err != nil {
		t.Fatal(err)
	}
	// The first token is drawn before any draft, the next four are drafted.
	draftWith(t, s, &given{text: plainText(t, s, prompt), wrong: -1, most: 4}, 4)
	s.lctx.Clear()
	out := &failsOnce{bad: 3}
	g := &generation{session: s, out: out, limit: draftTokens, line: newProgressLine(io.Discard)}
	if err := g.run(t.Context(), prompt, llama.SamplerParams{}); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	if out.writes != out.bad {
		t.Errorf("%d writes, the one that failed was number %d", out.writes, out.bad)
	}
}
