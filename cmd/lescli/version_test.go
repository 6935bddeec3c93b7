//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestVersionSaysWhatTheProgramWasBuiltFrom(t *testing.T) {
	program := filepath.Join(t.TempDir(), "lescli")
	if out, err := exec.Command("../../scripts/go.sh", "build", "-o", program, "./cmd/lescli").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, "version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	commit := "unknown" // an archive of the source has none
	if head, err := exec.Command("git", "rev-parse", "HEAD").Output(); err == nil {
		commit = strings.TrimSpace(string(head)) + `(\+changes)?`
	}
	series, err := filepath.Glob("../../patches/*.patch")
	if err != nil {
		t.Fatal(err)
	}
	pinned := pinnedVersion(t)
	want := `^lescli     commit ` + commit + `, go\S+, \S+/\S+\nllama.cpp  ` + regexp.QuoteMeta(strings.TrimPrefix(pinned, "v")) +
		`, pinned ` + regexp.QuoteMeta(pinned) + `, patches ` + strconv.Itoa(len(series)) + `\nbackends   CPU : .*\S\n$`
	if !regexp.MustCompile(want).Match(out) {
		t.Errorf("it says %s, want %s", out, want)
	}
}

// pinnedVersion is the tag of llama.cpp that is fetched.
func pinnedVersion(t *testing.T) string {
	t.Helper()
	lock, err := os.ReadFile("../../llama/upstream.lock")
	if err != nil {
		t.Fatal(err)
	}
	tag := regexp.MustCompile(`(?m)^tag +(\S+)`).FindSubmatch(lock)
	if tag == nil {
		t.Fatalf("upstream.lock names no tag: %s", lock)
	}
	return string(tag[1])
}
