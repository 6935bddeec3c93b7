package main

import (
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

func TestLaunchTakesTheModelOfTheEnvironment(t *testing.T) {
	model := tinyModel(t, "tiny-qwen3")
	t.Setenv(modelVariable, model)
	if got := planned(t, "--port", "1").args; !slices.Equal(got, []string{"--port", "1", "-m", model}) {
		t.Errorf("arguments are %q", got)
	}
}

func TestLaunchNamesWhatIsMissing(t *testing.T) {
	for _, command := range []string{"serve", "chat"} {
		expectFailure(t, exitError, []string{"/nowhere.gguf"}, command, "-m", "/nowhere.gguf")
		model := tinyModel(t, "tiny-qwen3")
		// Beside the program of this test there is no other one.
		expectFailure(t, exitError, []string{"llama-", "is not there", "scripts/build.sh"}, command, "-m", model)
		stdout, _, code := lescli(command, "--help")
		if code != exitOK || !strings.Contains(stdout, "llama-") {
			t.Errorf("%s --help: exit code %d, %s", command, code, stdout)
		}
	}
	if _, err := os.Stat("/nowhere.gguf"); err == nil {
		t.Fatal("the test needs a path that is nowhere")
	}
}
