package main

import (
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page is well-formed, has a row for each arm in each plot, and asks for
// nothing from elsewhere.
func TestPageHasAllArmsAndNeedsNothingElse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bench.html")
	bench(t, "-m", tinyModel(t, "tiny-qwen3moe"), "-n", "4", "-r", "2", "--sweep", "slots=0,2,all,off", "--html", path)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, name := range []string{"slots 0", "slots 2", "slots all", "off"} {
		if n := strings.Count(page, ">"+name+"<"); n < 3 {
			t.Errorf("%s is there %d times, want it in the table and two plots", name, n)
		}
	}
	for _, part := range []string{"Cache curve", "Time of a token", "Bytes of a token", "in flight"} {
		if !strings.Contains(page, part) {
			t.Errorf("%q is missing", part)
		}
	}
	for _, outside := range []string{"http", "<script", "src=", "href", "NaN", "ZgotmplZ"} {
		if strings.Contains(page, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	// On a narrow screen figures are scrolled, and not cut.
	if plots := strings.Count(page, "<svg"); plots == 0 || strings.Count(page, `<div class="wide"><svg`) != plots || !strings.Contains(page, "width=device-width") {
		t.Errorf("%d plots, not all in something that scrolls", plots)
	}
	checkTags(t, page)
}

// checkTags reads the page as XML, but for its few tags without an end.
func checkTags(t *testing.T, page string) {
	t.Helper()
	page = strings.Replace(page, `<meta charset="utf-8">`, "", 1)
	page = strings.Replace(page, "<!DOCTYPE html>", "", 1)
	for decoder := xml.NewDecoder(strings.NewReader(page)); ; {
		if _, err := decoder.Token(); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// A name that looks like markup is shown as text.
func TestPageEscapesNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.html")
	report := &benchReport{Command: "<script>alert(1)</script>", Arms: []armReport{{Name: "</text><script>", Decode: newSpread([]float64{1})}}}
	if err := writeBenchHTML(path, report); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(text), "<script") {
		t.Errorf("error %v, page %s", err, text)
	}
}

func TestPageThatCannotBeWrittenIsRefusedFirst(t *testing.T) {
	dir := t.TempDir()
	expectFailure(t, exitError, []string{"--html", dir}, "bench", "-m", "none.gguf", "--html", dir)
	expectFailure(t, exitError, []string{"--html", "none"}, "bench", "-m", "none.gguf", "--html", filepath.Join(dir, "none", "x.html"))
}

func TestReportsCannotShareAFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.WriteFile("there", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "there", "sub": "."} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	for json, html := range map[string]string{"x": "./x", "y": filepath.Join(dir, "y"), "there": "link", "z": "sub/z"} {
		expectFailure(t, exitUsage, []string{"--json and --html", json}, "bench", "-m", "x", "--json", json, "--html", html)
		expectFailure(t, exitUsage, []string{"--json and --les-warm", json}, "bench", "-m", "x", "--json", json, "--les-warm", html)
		expectFailure(t, exitUsage, []string{"--json and --les-warm", json}, "run", "-m", "x", "-p", "x", "--json", json, "--les-warm", html)
	}
	expectFailure(t, exitUsage, []string{"--html and --les-warm", "x"}, "bench", "-m", "x", "--html", "x", "--les-warm", "x")
	expectFailure(t, exitError, []string{noSuchFile}, "bench", "-m", "none", "--json", "x", "--html", "y")
}
