package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/les-project/les/cgo/les"
	"github.com/urfave/cli/v2"
)

// launch is one of llama.cpp's programs, started with a plan.
type launch struct {
	program string // its name
	args    []string
	notes   []string // what was chosen, for people
	drafter string   // file of --draft, empty without
}

func serveCommand() *cli.Command {
	return launchCommand("serve", "llama-server", "start llama-server, with experts streamed",
		"An HTTP server with the interface of OpenAI, on http://127.0.0.1:8080 if nothing else is said.")
}

func chatCommand() *cli.Command {
	return launchCommand("chat", "llama-cli", "talk to a model, with experts streamed",
		"Answers appear as they are made. /exit ends it, or Ctrl-C; during an answer Ctrl-C stops that.")
}

func launchCommand(name, program, usage, about string) *cli.Command {
	return &cli.Command{
		Name:  name,
		Usage: usage,
		Description: about + "\nAll flags are those of " + program + " (lescli " + name + " -- --help lists them), the --les-* " +
			"flags among them, and --draft, --draft-type and --draft-max as in lescli run.\nWhat is not given and is chosen here: " +
			"the model, as in lescli run; --les on for a model with experts; the longest context that takes little of the memory there is.",
		UsageText:       "lescli " + name + " [-m MODEL] [--les-budget SIZE] [flags of " + program + "]",
		SkipFlagParsing: true,
		HideHelp:        true,
		Action: func(c *cli.Context) error {
			args := c.Args().Slice()
			if len(args) == 1 && slices.Contains([]string{"--help", "-h"}, args[0]) {
				return cli.ShowSubcommandHelp(c)
			}
			l := launch{program: program, args: withoutSeparator(args)}
			if err := l.checkInput(os.Stdin); err != nil {
				return err
			}
			if err := l.plan(c); err != nil {
				return err
			}
			return l.start(c.App.ErrWriter)
		},
	}
}

// withoutSeparator drops the first --, behind which everything is the program's as
// before it.
func withoutSeparator(args []string) []string {
	at := slices.Index(args, "--")
	if at < 0 {
		return args
	}
	return slices.Concat(args[:at], args[at+1:])
}

// Flags of llama.cpp that lescli looks at.
var (
	modelFlags   = []string{"-m", "--model"}
	contextFlags = []string{"-c", "--ctx-size"}
	// elsewhereFlags say that the program finds its model, or several, by itself.
	elsewhereFlags = []string{"-mu", "--model-url", "-dr", "--docker-repo", "-hf", "-hfr", "--hf-repo", "-hff", "--hf-file",
		"--models-dir", "--models-preset"}
	// tellFlags make it tell something and load no model.
	tellFlags = []string{"-h", "--help", "--usage", "--version", "--list-devices", "--completion-bash", "-cl", "--cache-list"}
	// With a flag of each the program reads nothing from its standard input.
	onceFlags    = []string{"-st", "--single-turn"}
	messageFlags = []string{"-p", "--prompt", "-f", "--file", "-bf", "--binary-file"}
)

// checkInput refuses an input that ends, which llama-cli does not notice: it would
// ask for the next message for ever.
func (l *launch) checkInput(in *os.File) error {
	once := l.has(onceFlags) && l.has(messageFlags)
	if l.program != "llama-cli" || once || l.has(tellFlags) || isKeyboard(in) {
		return nil
	}
	return usagef("chat: standard input is no terminal, and llama-cli would not end with it; " +
		"lescli run --chat -f - answers what it reads there, and -st -p MESSAGE answers one message")
}

// isKeyboard tells a terminal from files, pipes and the device that is always empty.
func isKeyboard(in *os.File) bool {
	info, err := in.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// value returns the value of the last of these flags.
func (l *launch) value(flags []string) (text string, ok bool) {
	for i, arg := range l.args {
		name, inline, joined := strings.Cut(arg, "=")
		switch {
		case !slices.Contains(flags, name):
		case joined:
			text, ok = inline, true
		case i+1 < len(l.args):
			text, ok = l.args[i+1], true
		default:
			text, ok = "", true
		}
	}
	return text, ok
}

func (l *launch) has(flags []string) bool {
	_, ok := l.value(flags)
	return ok
}

// hasLES reports whether something is said about LES.
func (l *launch) hasLES() bool {
	isLES := func(arg string) bool { return arg == "--les" || strings.HasPrefix(arg, "--les-") }
	return slices.ContainsFunc(l.args, isLES) || os.Getenv("LES") != ""
}

// plan adds what is not said.
func (l *launch) plan(c *cli.Context) error {
	if err := l.translateDrafts(); err != nil {
		return err
	}
	if l.has(elsewhereFlags) || l.has(tellFlags) {
		return nil
	}
	path, given := l.value(modelFlags)
	if !given {
		var err error
		if path, err = modelPath(c); err != nil {
			return err
		}
		l.args = append(l.args, "-m", path)
	}
	file, err := readModelFile(path)
	if err != nil {
		return err
	}
	if err := l.checkDrafter(path); err != nil {
		return err
	}
	if len(file.layers) == 0 {
		return nil // as the program does it by itself
	}
	if !l.hasLES() {
		l.args = append(l.args, "--les", "on")
		l.notes = append(l.notes, "experts are streamed")
	}
	if l.has(contextFlags) {
		return nil
	}
	return l.planContext(path)
}

// planContext chooses a context.
func (l *launch) planContext(path string) error {
	budget := l.budget()
	tokens, err := affordableContext(path, budget)
	if err != nil {
		return err
	}
	reason := ""
	if budget == 0 {
		reason = ", as the system does not tell how much memory there is"
	}
	l.args = append(l.args, "-c", strconv.Itoa(tokens))
	l.notes = append(l.notes, fmt.Sprintf("a context of %d tokens%s; -c takes another one", tokens, reason))
	return nil
}

// budget is what the program will plan for, as it finds it: from its flag, its
// environment or the memory there is. It is 0 where the system does not tell. What
// is no size is left to the program to refuse.
func (l *launch) budget() int64 {
	text, given := l.value([]string{"--les-budget"})
	if !given && !l.has([]string{"--les-slots"}) {
		text = os.Getenv("LES_BUDGET")
	}
	if budget, err := les.ParseSize(text); err == nil {
		return budget
	}
	budget, _ := memoryForProcess()
	return budget
}

// start becomes the program, which is beside this one.
func (l *launch) start(log io.Writer) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return err
	}
	name := l.program
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(filepath.Dir(exe), name)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is not there; scripts/build.sh %s builds it", path, l.program)
	}
	if len(l.notes) > 0 {
		fmt.Fprintf(log, "%s: %s\n", l.program, strings.Join(l.notes, "; "))
	}
	return become(path, append([]string{path}, l.args...))
}
