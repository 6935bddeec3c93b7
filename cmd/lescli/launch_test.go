package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// planned is what a program would be started with.
func planned(t *testing.T, args ...string) *launch {
	t.Helper()
	app := newApp(io.Discard, io.Discard)
	l := &launch{program: "llama-server", args: withoutSeparator(args)}
	if err := l.plan(cli.NewContext(app, nil, nil)); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLaunchChoosesWhatIsNotSaid(t *testing.T) {
	t.Setenv("LES", "")
	experts, dense := tinyModel(t, "tiny-qwen3moe"), tinyModel(t, "tiny-qwen3")
	trained := "4096" // or what the presets were made for, where that is less
	if l := planned(t, "-m", experts); l.args[len(l.args)-2] == "-c" {
		trained = l.args[len(l.args)-1]
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-m", experts}, []string{"-m", experts, "--les", "on", "-c", trained}},
		{[]string{"--port", "1", "--", "-m", experts, "-c", "99"}, []string{"--port", "1", "-m", experts, "-c", "99", "--les", "on"}},
		{[]string{"--model=" + experts, "--les-slots", "2", "--ctx-size=8"}, []string{"--model=" + experts, "--les-slots", "2", "--ctx-size=8"}},
		{[]string{"-m", experts, "--les", "off", "-c", "5"}, []string{"-m", experts, "--les", "off", "-c", "5"}},
		{[]string{"-m", dense}, []string{"-m", dense}},
		{[]string{"--models-dir", "x"}, []string{"--models-dir", "x"}},
		{[]string{"--help"}, []string{"--help"}},
	} {
		if got := planned(t, c.args...).args; !slices.Equal(got, c.want) {
			t.Errorf("%q becomes %q, want %q", c.args, got, c.want)
		}
	}
	t.Setenv("LES", "off")
	if got := planned(t, "-m", experts, "-c", "9").args; slices.Contains(got, "--les") {
		t.Errorf("the environment says off, and %q is asked for", got)
	}
}

func TestLaunchPutsDraftsIntoTheProgramsWords(t *testing.T) {
	t.Setenv("LES", "off")
	dense, drafter := tinyModel(t, "tiny-qwen3"), referenceDrafter()
	model := []string{"-m", referenceModel, "-c", "9"}
	for _, c := range []struct{ args, want []string }{
		{[]string{"--draft", drafter, "--draft-max=4"}, []string{"-md", drafter, "--spec-draft-n-max", "4", "--spec-type", "draft-dspark"}},
		{[]string{"--draft=" + referenceModel, "--draft-type", "auto"}, []string{"-md", referenceModel, "--spec-type", "draft-simple", "--spec-draft-n-max", "7"}},
		{[]string{"-md", drafter}, []string{"-md", drafter}},
		{[]string{"--draft-type", "ngram-simple"}, []string{"--spec-type", "ngram-simple"}},
		{[]string{"-md", drafter, "--draft-type", "draft-dspark"}, []string{"-md", drafter, "--spec-type", "draft-dspark", "--spec-draft-n-max", "7"}},
	} {
		if got := planned(t, append(slices.Clone(model), c.args...)...).args; !slices.Equal(got[4:], c.want) {
			t.Errorf("%q becomes %q, want %q", c.args, got[4:], c.want)
		}
	}
	for _, args := range [][]string{{"--draft"}, {"--draft="}, {"--draft-type", "auto"}} {
		expectFailure(t, exitUsage, []string{"--draft"}, append([]string{"serve", "-m", dense}, args...)...)
	}
	expectFailure(t, exitError, []string{"absent.gguf"}, "chat", "-m", dense, "-st", "-p", "x", "--draft", "absent.gguf")
	for _, command := range []string{"serve", "chat"} {
		expectFailure(t, exitError, []string{drafter, "vocabulary of 4096 tokens, the model one of 512"}, command, "-m", dense, "-st", "-p", "x", "--draft", drafter)
	}
}

// longModel is a model that was trained for long contexts, of 2 KiB a token.
func longModel(t *testing.T) string {
	t.Helper()
	path := tinyModel(t, "tiny-qwen3moe")
	data, key := mustRead(t, path), []byte("context_length")
	binary.LittleEndian.PutUint32(data[bytes.Index(data, key)+len(key)+4:], 1<<18) // behind its type
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestContextFollowsTheBudgetThatIsGiven(t *testing.T) {
	t.Setenv("LES", "")
	model := longModel(t)
	for _, c := range []struct {
		env  string
		args []string
		want string
	}{
		{"", []string{"--les-budget", "1G"}, "32768"},
		{"", []string{"--les-budget=300M"}, "16384"},
		{"64M", []string{"--les-budget", "300M"}, "16384"},
		{"64M", nil, "4096"},
		{"64M", []string{"--les-slots", "2"}, "32768"}, // of the memory there is, which is more
	} {
		t.Setenv("LES_BUDGET", c.env)
		got := planned(t, append([]string{"-m", model}, c.args...)...).args
		if at := slices.Index(got, "-c"); at < 0 || got[at+1] != c.want {
			t.Errorf("%q, LES_BUDGET=%s: %q, want %s", c.args, c.env, got, c.want)
		}
	}
}

// Nobody knows then what a context may take, so it is short, but never longer than
// the model was trained for.
func TestContextWithoutAKnownBudgetIsTheLeast(t *testing.T) {
	for model, want := range map[string]int{longModel(t): contextLeast, referenceModel: 1024} {
		if got, err := affordableContext(model, 0); err != nil || got != want {
			t.Errorf("%s: %d tokens, %v, want %d", model, got, err, want)
		}
	}
}

func TestLaunchTakesTheModelOfTheEnvironment(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3")
	t.Setenv(modelVariable, model)
	if got := planned(t, "--port", "1").args; !slices.Equal(got, []string{"--port", "1", "-m", model}) {
		t.Errorf("arguments are %q", got)
	}
}

func TestLaunchNamesWhatIsMissing(t *testing.T) {
	for _, command := range []string{"serve", "chat"} {
		expectFailure(t, exitError, []string{"/nowhere.gguf"}, command, "-st", "-p", "x", "-m", "/nowhere.gguf")
		model := tinyModel(t, "tiny-qwen3")
		// Beside the program of this test there is no other one.
		expectFailure(t, exitError, []string{"llama-", "is not there", "scripts/build.sh"}, command, "-st", "-p", "x", "-m", model)
		stdout, _, code := lescli(command, "--help")
		if code != exitOK || !strings.Contains(stdout, "llama-") {
			t.Errorf("%s --help: exit code %d, %s", command, code, stdout)
		}
	}
	if _, err := os.Stat("/nowhere.gguf"); err == nil {
		t.Fatal("the test needs a path that is nowhere")
	}
}

// llama-cli asks for the next message for ever where its input has ended.
func TestChatRefusesAnInputThatEnds(t *testing.T) {
	pipe, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer writer.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, in := range []*os.File{pipe, null} {
		for _, args := range [][]string{nil, {"-st"}, {"-p", "x"}} {
			err := (&launch{program: "llama-cli", args: args}).checkInput(in)
			if err == nil || !strings.Contains(err.Error(), "lescli run") {
				t.Errorf("%s, %q: %v", in.Name(), args, err)
			}
		}
		for _, l := range []*launch{{program: "llama-server"}, {program: "llama-cli", args: []string{"--help"}},
			{program: "llama-cli", args: []string{"-st", "-p", "x"}}} {
			if err := l.checkInput(in); err != nil {
				t.Errorf("%s, %s %q: %v", in.Name(), l.program, l.args, err)
			}
		}
	}
}
