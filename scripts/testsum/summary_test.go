package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stream = `
{"Action":"output","Package":"github.com/les-project/les/lesext/slot","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"github.com/les-project/les/lesext/slot","Test":"TestA"}
{"Action":"skip","Package":"github.com/les-project/les/lesext/slot","Test":"TestNeedsModel/small"}
{"Action":"skip","Package":"github.com/les-project/les/lesext/slot"}
{"Action":"pass","Package":"github.com/les-project/les/lesext/slot"}
`

func sum(t *testing.T, text string, allowed ...skip) *summary {
	t.Helper()
	s, err := summarize(strings.NewReader(strings.TrimSpace(text)), allowed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestUnexpectedSkipIsNotClean(t *testing.T) {
	s := sum(t, stream)
	if s.clean() || len(s.unexpected) != 1 || s.unexpected[0] != "lesext/slot TestNeedsModel/small" {
		t.Errorf("unexpected skips: %q", s.unexpected)
	}
}

func TestExpectedSkipIsClean(t *testing.T) {
	s := sum(t, stream, skip{"lesext/*", "TestNeeds*"})
	if !s.clean() || s.passed != 1 || s.skipped != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestFailurePrintsItsOutput(t *testing.T) {
	s := sum(t, `{"Action":"output","Package":"p","Test":"TestB","Output":"want 1\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`)
	var out strings.Builder
	s.print(&out, "stage")
	want := "FAIL p TestB\nwant 1\nFAIL  stage: 0 passed, 1 failed, 0 skipped (0 unexpected)\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestTestThatNeverEndedIsNamed(t *testing.T) {
	s := sum(t, `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"signal: aborted\n"}
{"Action":"fail","Package":"p"}`)
	var out strings.Builder
	s.print(&out, "stage")
	want := "FAIL p TestB (did not end)\nsignal: aborted\nFAIL  stage: 1 passed, 1 failed, 0 skipped (0 unexpected)\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestBuildFailureIsNotClean(t *testing.T) {
	s := sum(t, `{"ImportPath":"p","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"fail","Package":"p"}`)
	if s.clean() {
		t.Error("a build failure counts as clean")
	}
}

func TestSkipNeedsAReason(t *testing.T) {
	name := filepath.Join(t.TempDir(), "skips")
	if err := os.WriteFile(name, []byte("# comment\n\nlesext/slot TestA\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readAllowed(name); err == nil || !strings.Contains(err.Error(), ":3:") {
		t.Errorf("got %v, want an error on line 3", err)
	}
}
