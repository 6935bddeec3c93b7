package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/les-project/les/cgo/host"
	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

// Exit codes. A program that a signal asked to stop has another one: see
// caughtSignal.
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// silentError ends the program with the exit code of what it wraps, after the
// command has said everything itself.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

// newApp builds the program. Commands print through the app's writers only.
func newApp(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:        "lescli",
		Usage:       "run Mixture-of-Experts models with their experts streamed from flash",
		Version:     llama.Version(),
		Writer:      stdout,
		ErrWriter:   stderr,
		HideVersion: true,
		Commands: []*cli.Command{
			runCommand(), chatCommand(), serveCommand(), inspectCommand(), verifyCommand(), benchCommand(), benchWorkerCommand(), traceCommand(), replayCommand(),
			doctorCommand(), synthCommand(), repackCommand(), unpackCommand(), checkCommand(), imatrixCommand(), quantizeCommand(), qualityCommand(), versionCommand(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("unknown command %q; lescli --help lists them", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		// Errors are reported and turned into an exit code by realMain.
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

// realMain runs the program and returns its exit code.
func realMain(args []string, stdout, stderr io.Writer) int {
	llama.Init()
	keepOut()
	ctx, caught := withCaught(context.Background())
	out := &output{out: stdout, caught: caught}
	app := newApp(out, stderr)
	app.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return flagError(args, "", err) }
	for _, command := range app.Commands {
		command.OnUsageError = func(_ *cli.Context, err error, _ bool) error { return flagError(args, command.Name, err) }
		command.HideHelpCommand, command.CustomHelpTemplate = true, helpTemplate
		command.Flags = append(command.Flags, &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "print llama.cpp's log"})
		command.Before = setLog
	}
	return caught.tell(out.result(app.RunContext(ctx, flagsFirst(app, args))), stderr)
}

// tell reports how the program ends, and returns its exit code.
func (s *caughtSignal) tell(err error, stderr io.Writer) int {
	var usage usageError
	var silent silentError
	switch {
	case err == nil:
		return exitOK
	case isInterruption(err):
		if !errors.As(err, &silent) {
			fmt.Fprintln(stderr, "lescli: interrupted")
		}
		for _, other := range besideInterruption(err) {
			fmt.Fprintf(stderr, "lescli: %v\n", other)
		}
		return s.exitCode()
	case errors.As(err, &silent):
		return exitError
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "lescli: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "lescli: %v\n", err)
		return exitError
	}
}

// keepOut keeps the hooks in llama.cpp's loads away: what is streamed here is
// said by flags, not by the environment.
func keepOut() {
	if err := host.SetOption("mode", "off"); err != nil {
		panic("lescli: " + err.Error())
	}
}

// setLog sends llama.cpp's log to standard error if that is asked for.
func setLog(c *cli.Context) error {
	llama.SetLog(nil)
	if c.Bool("verbose") {
		out := c.App.ErrWriter
		llama.SetLog(func(_ llama.Level, line string) { fmt.Fprintln(out, line) })
	}
	return nil
}
