package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// lescli runs the program and returns what it printed and its exit code.
func lescli(args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = realMain(append([]string{"lescli"}, args...), &out, &err)
	return out.String(), err.String(), code
}

// noSuchFile is what this system says of a file that is not there.
var noSuchFile = func() string {
	_, err := os.Stat("this-file-is-not-there")
	return errors.Unwrap(err).Error()
}()

// tinyModel writes a preset and returns its path.
func tinyModel(t *testing.T, preset string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), preset+".gguf")
	if _, stderr, code := lescli("synth", path, "--preset", preset); code != exitOK {
		t.Fatalf("synth: %s", stderr)
	}
	return path
}

// expectFailure runs the program and checks its exit code, that the message
// has every part, and that it says nothing on standard output.
func expectFailure(t *testing.T, code int, parts []string, args ...string) {
	t.Helper()
	stdout, stderr, got := lescli(args...)
	if got != code {
		t.Errorf("exit code %d, want %d: %s", got, code, stderr)
	}
	for _, part := range parts {
		if !strings.Contains(stderr, part) {
			t.Errorf("message %q does not have %q", stderr, part)
		}
	}
	if stdout != "" {
		t.Errorf("standard output has %q", stdout)
	}
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	t.Setenv(modelVariable, "model.gguf")
	cases := map[string]struct {
		args []string
		want string
	}{
		"unknown command":          {[]string{"frob"}, "frob"},
		"unknown flag":             {[]string{"run", "--frob=1"}, "lescli: run: there is no flag --frob; lescli run --help lists"},
		"unknown short flag":       {[]string{"run", "-frob"}, "lescli: run: there is no flag -frob; lescli run --help lists"},
		"unknown flag of all":      {[]string{"--frob"}, "lescli: there is no flag --frob; lescli --help lists"},
		"flag without value":       {[]string{"synth", "out", "--preset"}, "lescli: synth: --preset needs a value; lescli synth --help lists"},
		"not a number":             {[]string{"run", "-p", "x", "--n", "many"}, `invalid value "many" for --n: parse error`},
		"version of something":     {[]string{"version", "x"}, `version: unexpected argument "x"`},
		"stray argument":           {[]string{"run", "-p", "x", "stray"}, "stray"},
		"no prompt":                {[]string{"run"}, "--prompt (-p) or --file (-f) is missing"},
		"two prompts":              {[]string{"run", "-p", "x", "-f", "y"}, "--prompt (-p) and --file (-f) contradict"},
		"no tokens":                {[]string{"run", "-p", "x", "-n", "0"}, "lescli: -n: 0"},
		"negative context":         {[]string{"run", "-p", "x", "-c", "-1"}, "--ctx (-c): -1"},
		"no threads":               {[]string{"run", "-p", "x", "-t", "0"}, "--threads (-t): 0"},
		"no ubatch":                {[]string{"run", "-p", "x", "-ub", "0"}, "--ubatch (-ub): 0"},
		"count beyond 32 bits":     {[]string{"run", "-p", "x", "-c", "99999999999"}, "--ctx"},
		"negative temperature":     {[]string{"run", "-p", "x", "--temp", "-1"}, "--temp"},
		"seed beyond 32 bits":      {[]string{"run", "-p", "x", "--seed", "4294967296"}, "--seed"},
		"odd les mode":             {[]string{"run", "-p", "x", "--les", "maybe"}, "--les"},
		"budget of zero":           {[]string{"run", "-p", "x", "--les-budget", "0"}, "--les-budget"},
		"negative budget":          {[]string{"run", "-p", "x", "--les-budget=-4G"}, "--les-budget"},
		"budget without number":    {[]string{"run", "-p", "x", "--les-budget", "G"}, "--les-budget"},
		"negative slots":           {[]string{"run", "-p", "x", "--les-slots", "-1"}, "--les-slots"},
		"bandwidth of one byte":    {[]string{"replay", "x", "--bandwidth", "1"}, "--bandwidth: 1 is less than 1M"},
		"lookahead of two":         {[]string{"run", "-p", "x", "--les-lookahead", "2"}, "--les-lookahead: 2 is more than 1"},
		"verified lookaheads":      {[]string{"verify", "--les-lookahead", "1,2"}, "--les-lookahead: 2 is more than 1"},
		"swept lookahead":          {[]string{"bench", "--sweep", "lookahead=0,2"}, "--sweep: 2 is not between 0 and 1"},
		"negative lookahead":       {[]string{"run", "-p", "x", "--les-lookahead", "-1"}, "--les-lookahead"},
		"no lanes":                 {[]string{"run", "-p", "x", "--les-lanes", "0"}, "--les-lanes"},
		"off with slots":           {[]string{"run", "-p", "x", "--les", "off", "--les-slots", "2"}, "--les off and --les-slots contradict"},
		"off with budget":          {[]string{"run", "-p", "x", "--les", "off", "--les-budget", "1G"}, "--les off and --les-budget contradict"},
		"budget with slots":        {[]string{"run", "-p", "x", "--les-slots", "2", "--les-budget", "1G"}, "--les-budget and --les-slots contradict"},
		"two to inspect":           {[]string{"inspect", "a", "b"}, `"b"`},
		"inspect without context":  {[]string{"inspect", "a", "-c", "0"}, "--ctx"},
		"nothing to write":         {[]string{"synth", "--preset", "tiny-qwen3moe"}, "OUT is missing"},
		"no preset":                {[]string{"synth", "out"}, "--preset is missing"},
		"unknown preset":           {[]string{"synth", "out", "--preset", "huge"}, `unknown preset "huge"`},
		"unknown expert type":      {[]string{"synth", "out", "--preset", "tiny-qwen3moe", "--experts", "q9"}, "--experts"},
		"verify without sequences": {[]string{"verify", "--seqs", "0"}, "--seqs"},
		"verify odd slots":         {[]string{"verify", "--les-slots", "floor,some"}, "some"},
		"verify no prompt":         {[]string{"verify", "--prompt-tokens", "0"}, "--prompt-tokens"},
		"verify negative delay":    {[]string{"verify", "--read-delay", "-1s"}, "--read-delay"},
		"bench without tokens":     {[]string{"bench", "-n", "0"}, "lescli: -n: 0"},
		"bench repack streamed":    {[]string{"bench", "--repack"}, "--repack needs --les off"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { expectFailure(t, exitUsage, []string{c.want}, c.args...) })
	}
}

func TestNoModelIsAUsageError(t *testing.T) {
	t.Setenv(modelVariable, "")
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"run", "-p", "x"}, {"inspect"}, {"check"}} {
		expectFailure(t, exitUsage, []string{"--model (-m) is missing"}, args...)
	}
}

func TestBadModelFilesAreNamedAndLeaveNothingBehind(t *testing.T) {
	whole, err := os.ReadFile(tinyModel(t, "tiny-qwen3moe"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "модель one.gguf")
	commands := [][]string{
		{"inspect", path}, {"run", "-m", path, "-p", "x"}, {"bench", "-m", path},
		{"verify", "-m", path, "--les-slots", "resident"},
	}
	cases := map[string]struct {
		data []byte
		want string
	}{
		"not a GGUF":   {[]byte(strings.Repeat("no model ", 99)), "cannot read"},
		"empty":        {nil, "is empty"},
		"header only":  {whole[:len(whole)/50], ""},
		"cut by one":   {whole[:len(whole)-1], ""},
		"other format": {append([]byte("GGML"), whole[4:]...), "cannot read"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, args := range commands {
				expectFailure(t, exitError, []string{path, c.want}, args...)
			}
		})
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, args := range commands {
		expectFailure(t, exitError, []string{path, noSuchFile}, args...)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestSynthKeepsAFileThatIsThere(t *testing.T) {
	path := tinyModel(t, "tiny-qwen3")
	expectFailure(t, exitError, []string{path, "--force"}, "synth", path, "--preset", "tiny-qwen3moe")
	if _, stderr, code := lescli("synth", "--force", "--preset", "tiny-qwen3moe", path); code != exitOK {
		t.Error(stderr)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"version"}, {"run", "--help"}, {"synth", "--help"}} {
		if stdout, stderr, code := lescli(args...); code != exitOK || stdout == "" || stderr != "" {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	commands := [][]string{{"--help"}}
	for _, command := range newApp(io.Discard, io.Discard).Commands {
		commands = append(commands, []string{command.Name, "--help"})
	}
	for _, args := range commands {
		stdout, _, code := lescli(args...)
		if code != exitOK {
			t.Errorf("%v: exit code %d", args, code)
		}
		for line := range strings.Lines(stdout) {
			if line = strings.TrimRight(line, "\n"); len(line) > 80 || strings.HasSuffix(line, " ") {
				t.Errorf("%v: %d characters: %q", args, len(line), line)
			}
		}
	}
}

func TestHelpHasFlagsAsTheyAreTyped(t *testing.T) {
	stdout, _, _ := lescli("verify", "--help")
	for _, want := range []string{
		"\n   --ubatch, -ub value,value tokens computed at once (default: 512)\n",
		"\n   --les-lookahead value,value\n                             layers read ahead (default: 1)\n",
		"\n   --verbose, -v             print llama.cpp's log\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in %s", want, stdout)
		}
	}
}

func TestDefaultsAreToldOnce(t *testing.T) {
	for _, command := range newApp(io.Discard, io.Discard).Commands {
		for _, flag := range command.Flags {
			if text := flag.String(); strings.Count(text, "(default") > 1 {
				t.Errorf("%s: %s", command.Name, text)
			}
		}
	}
}
