package main

import (
	"fmt"
	"strings"
	"testing"
)

// cycle is one line of testdata/app.c.
type cycle struct {
	hash               string
	rssKiB             int64
	openFiles, threads int
	engine             int
}

func cycles(t *testing.T, out string) (list []cycle) {
	t.Helper()
	for line := range strings.Lines(out) {
		var c cycle
		if _, err := fmt.Sscan(line, &c.hash, &c.rssKiB, &c.openFiles, &c.threads, &c.engine); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		t.Fatal("the program printed nothing")
	}
	return list
}

func TestApplicationWithoutACallOfItsOwnStreamsByTheEnvironment(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	off := succeed(t, []string{"LES=off"}, app, model, "1")
	resident := cycles(t, off.stdout)[0]
	for _, variables := range [][]string{{"LES_SLOTS=floor"}, {"LES_SLOTS=2", "LES_LOOKAHEAD=0", "LES_LANES=1"}, {"LES_BUDGET=100M"}, {"LES=on"}} {
		r := succeed(t, variables, app, model, "1")
		streamed := cycles(t, r.stdout)[0]
		if streamed.hash != resident.hash {
			t.Errorf("%v: logits differ: %s, resident %s", variables, streamed.hash, resident.hash)
		}
		if streamed.engine != 1 || !strings.Contains(r.stderr, "expert slots for 144 experts") {
			t.Errorf("%v: nothing was streamed: %s", variables, r.stderr)
		}
	}
}

func TestProcessThatDoesNotWantLESHasNoEngine(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	for _, variables := range [][]string{nil, {"LES=off"}, {"LES=auto"}, {"LES=off", "LES_BUDGET=4G"}} {
		r := succeed(t, variables, app, model, "1")
		if c := cycles(t, r.stdout)[0]; c.engine != 0 || c.threads > 2 {
			t.Errorf("%v: engine %d, %d threads", variables, c.engine, c.threads)
		}
		if strings.Contains(r.stderr, "LES") {
			t.Errorf("%v: %s", variables, r.stderr)
		}
	}
}

func TestBadOptionsOfTheEnvironmentFailTheLoadByName(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	tests := []struct{ variables, want string }{
		{"LES=maybe", `LES: LES: "maybe" is neither on, off nor auto`},
		{"LES_BUDGET=4X", `LES: LES_BUDGET: "4X" is not a size like 4G, 512M or 1048576`},
		{"LES_BUDGET=0", `LES_BUDGET: "0" must be more than zero`},
		{"LES_BUDGET=-1G", `LES_BUDGET: "-1G" must be more than zero`},
		{"LES_BUDGET=99999999T", `LES_BUDGET: "99999999T" is out of range`},
		{"LES_BUDGET=20M", "a budget of 20971520 bytes is below the floor of"},
		{"LES_BUDGET=4G LES_SLOTS=2", "LES_SLOTS: a budget and a number of slots contradict"},
		{"LES_SLOTS=many", `LES_SLOTS: "many" is neither a number, floor nor all`},
		{"LES_SLOTS=-3", "LES_SLOTS: -3 is negative"},
		{"LES_LOOKAHEAD=-1", "LES_LOOKAHEAD: -1 is negative"},
		{"LES_LOOKAHEAD=1.5", `LES_LOOKAHEAD: "1.5" is not a number`},
		{"LES_LANES=0", "LES_LANES: 0 must be more than zero"},
		{"LES_LANES=100000", "LES_LANES: 100000 is more than 256"},
	}
	for _, test := range tests {
		r := run(t, strings.Fields(test.variables), app, model, "1")
		if r.code != 1 || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: exit code %d: %s", test.variables, r.code, r.stderr)
		}
	}
}
