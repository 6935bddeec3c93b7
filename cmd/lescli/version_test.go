package main

import (
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
	want := `^lescli     commit ` + commit + `, go\S+, \S+/\S+\nllama.cpp  0\.5\.0, pinned v0\.5\.0, patches ` + strconv.Itoa(len(series)) + `\nbackends   CPU : .*\S\n$`
	if !regexp.MustCompile(want).Match(out) {
		t.Errorf("it says %s, want %s", out, want)
	}
}
