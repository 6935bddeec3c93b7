package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// streams is the line that the engine writes when it opens; with slots at the
// floor most experts are read.
const streams = "LES: 8 expert slots for 144 experts"

func TestProgramsOfLlamaCppStreamByTheEnvironment(t *testing.T) {
	text := filepath.Join(root, "models/heldout.txt")
	tests := []struct {
		name    string
		args    []string
		results *regexp.Regexp // what of the output must be the same
	}{
		{"llama-completion", []string{"-m", model, "-p", "func main() {", "-n", "24", "--temp", "0", "-no-cnv", "-c", "256"}, regexp.MustCompile(`(?s)^.+\n\n$`)},
		{"llama-perplexity", []string{"-m", model, "-f", text, "-c", "256", "--chunks", "2"}, regexp.MustCompile(`\[1\][0-9.]+,\[2\][0-9.]+`)},
		{"llama-bench", []string{"-m", model, "-p", "8", "-n", "8", "-r", "1", "-v"}, regexp.MustCompile(`\| +tg8`)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			program := filepath.Join(binDir(t), test.name)
			args := append(test.args, "-t", "2")
			if test.name != "llama-bench" {
				args = append(args, "--no-repack", "-v")
			}
			resident := printed(t, test.results, "LES=off", program, args...)
			streamed := printed(t, test.results, "LES_SLOTS=floor", program, args...)
			want, got := test.results.FindString(resident.stdout), test.results.FindString(streamed.stdout)
			if want == "" || want != got {
				t.Errorf("resident: %q\nstreamed: %q", want, got)
			}
			if strings.Contains(resident.stderr, "LES: ") {
				t.Error("LES says something although it is off")
			}
			if !strings.Contains(streamed.stdout+streamed.stderr, streams) {
				t.Errorf("nothing was streamed: %s", streamed.stderr)
			}
		})
	}
}

// printed runs a program until its output has the results. llama.cpp writes from a
// thread that it does not wait for at its end, so the last lines may be lost.
func printed(t *testing.T, results *regexp.Regexp, variable, program string, args ...string) result {
	t.Helper()
	for range 9 {
		if r := succeed(t, []string{variable}, program, args...); results.MatchString(r.stdout) {
			return r
		}
	}
	t.Fatalf("%s: none of 9 runs of %s has printed %v", variable, program, results)
	return result{}
}

// llama.cpp's log has a thread of its own, which programs do not wait for at their end.
func TestReasonOfARefusalIsNotLost(t *testing.T) {
	for i := range 20 {
		r := run(t, []string{"LES_BUDGET=16M"}, filepath.Join(binDir(t), "llama-completion"), "-m", model, "-p", "a", "-n", "1", "-no-cnv", "-c", "256")
		if r.code == 0 || !strings.Contains(r.stderr, "below the floor") {
			t.Fatalf("run %d: exit code %d, %s", i, r.code, r.stderr)
		}
	}
}

// The longest context that fits the machine, which llama.cpp takes, has nothing to do with a budget.
func TestContextThatNobodyAskedForIsBounded(t *testing.T) {
	program := filepath.Join(binDir(t), "llama-completion")
	length := regexp.MustCompile(`llama_context: n_ctx +=\s+(\d+)`)
	for _, test := range []struct {
		variable, want string
		args           []string
	}{
		{"LES=off", "65536", nil},
		{"LES_BUDGET=1G", "1024", nil}, // what the file says it was trained for
		{"LES_BUDGET=1G", "65536", []string{"-c", "0"}},
		{"LES_BUDGET=1G", "2048", []string{"-c", "2048"}},
	} {
		args := append([]string{"-m", model, "-p", "a", "-n", "1", "-no-cnv", "-v", "--override-kv", "qwen3moe.context_length=int:65536"}, test.args...)
		r := succeed(t, []string{test.variable}, program, args...)
		got := length.FindStringSubmatch(r.stdout + r.stderr)
		if got == nil || got[1] != test.want {
			t.Errorf("%s %v: context of %q, want %s", test.variable, test.args, got, test.want)
		}
	}
}
