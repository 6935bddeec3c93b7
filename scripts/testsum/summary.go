package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

const modulePath = "github.com/les-project/les/"

// lineBytesMax bounds one line of the stream; the go command splits longer output.
const lineBytesMax = 16 << 20

// event is the part of a test2json event that is used here.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// name of what the event is about; failures to build know an ImportPath only.
func (e event) name() string {
	pkg := e.Package
	if pkg == "" {
		pkg = e.ImportPath
	}
	return strings.TrimSpace(strings.TrimPrefix(pkg, modulePath) + " " + e.Test)
}

// skip is one line of the file of expected skips.
type skip struct{ pkg, test string }

// matches a test, or any subtest of it.
func (s skip) matches(pkg, test string) bool {
	parent, _, _ := strings.Cut(test, "/")
	return match(s.pkg, pkg) && (match(s.test, test) || match(s.test, parent))
}

func match(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// readAllowed reads the expected skips; each needs a reason.
func readAllowed(name string) ([]skip, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var allowed []skip
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: want package, test and reason", name, i+1)
		}
		allowed = append(allowed, skip{fields[0], fields[1]})
	}
	return allowed, nil
}

// summary counts tests and subtests alike, and packages only when they fail
// without a failing test (a build error, a panic outside a test). A test that was
// running when its program died has no event of its own and is a failure too.
type summary struct {
	passed     int
	skipped    int
	failed     []string
	unexpected []string
	output     map[string]*strings.Builder
	running    map[string]event // tests that began and did not end
}

func (s *summary) clean() bool { return len(s.failed) == 0 && len(s.unexpected) == 0 }

// summarize reads a stream of events; a line that is not JSON is kept as output
// of nothing in particular and shown when something failed.
func summarize(r io.Reader, allowed []skip) (*summary, error) {
	s := &summary{output: map[string]*strings.Builder{}, running: map[string]event{}}
	failedIn := map[string]bool{}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, lineBytesMax)
	for scanner.Scan() {
		var e event
		if json.Unmarshal(scanner.Bytes(), &e) != nil {
			e = event{Action: "output", Output: scanner.Text() + "\n"}
		}
		s.add(e, allowed, failedIn)
	}
	return s, scanner.Err()
}

func (s *summary) add(e event, allowed []skip, failedIn map[string]bool) {
	name := e.name()
	if e.Test != "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
		delete(s.running, name)
	}
	switch e.Action {
	case "output", "build-output":
		if s.output[name] == nil {
			s.output[name] = &strings.Builder{}
		}
		s.output[name].WriteString(e.Output)
	case "run":
		s.running[name] = e
	case "pass":
		if e.Test != "" {
			s.passed++
			delete(s.output, name)
		}
	case "fail", "build-fail":
		if e.Test == "" {
			s.failUnended(e.Package, failedIn)
		}
		if e.Test != "" || !failedIn[e.Package] {
			s.failed = append(s.failed, name)
		}
		failedIn[e.Package] = true
	case "skip":
		if e.Test != "" {
			s.addSkip(name, strings.TrimPrefix(e.Package, modulePath), e.Test, allowed)
		}
	}
}

// failUnended counts the tests of a failed package that never ended.
func (s *summary) failUnended(pkg string, failedIn map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(s.running)) {
		if s.running[name].Package == pkg {
			s.failed = append(s.failed, name+" (did not end)")
			s.output[name+" (did not end)"] = s.output[name]
			failedIn[pkg] = true
			delete(s.running, name)
		}
	}
}

func (s *summary) addSkip(name, pkg, test string, allowed []skip) {
	s.skipped++
	for _, a := range allowed {
		if a.matches(pkg, test) {
			return
		}
	}
	s.unexpected = append(s.unexpected, name)
}

func (s *summary) print(w io.Writer, stage string) {
	for _, name := range s.failed {
		fmt.Fprintf(w, "FAIL %s\n", name)
		if s.output[name] != nil {
			fmt.Fprint(w, s.output[name].String())
		}
	}
	if len(s.failed) > 0 && s.output[""] != nil {
		fmt.Fprint(w, s.output[""].String())
	}
	for _, name := range s.unexpected {
		fmt.Fprintf(w, "UNEXPECTED SKIP %s\n", name)
		if s.output[name] != nil {
			fmt.Fprint(w, s.output[name].String())
		}
	}
	verdict := "ok"
	if !s.clean() {
		verdict = "FAIL"
	}
	fmt.Fprintf(w, "%-5s %s: %d passed, %d failed, %d skipped (%d unexpected)\n",
		verdict, stage, s.passed, len(s.failed), s.skipped, len(s.unexpected))
}
