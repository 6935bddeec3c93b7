package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// flagsFirst moves the positional arguments of a command behind its flags,
// because the flag parser stops at the first one: `synth OUT --preset P` and
// `synth --preset P OUT` mean the same.
func flagsFirst(app *cli.App, args []string) []string {
	if len(args) < 2 {
		return args
	}
	command := app.Command(args[1])
	if command == nil || command.SkipFlagParsing {
		return args
	}
	flags, positional := slices.Clone(args[:2]), []string(nil)
	rest := args[2:]
	for len(rest) > 0 {
		arg := rest[0]
		rest = rest[1:]
		switch {
		case arg == "--":
			positional, rest = append(positional, rest...), nil
		case len(arg) < 2 || arg[0] != '-':
			positional = append(positional, arg)
		default:
			flags = append(flags, arg)
			if !takesValue(command, arg) {
				continue
			}
			if len(rest) == 0 {
				return flags // what follows would be taken for its value
			}
			flags, rest = append(flags, rest[0]), rest[1:]
		}
	}
	return append(append(flags, "--"), positional...)
}

// takesValue says whether the next argument belongs to this flag.
func takesValue(command *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, flag := range command.Flags {
		if slices.Contains(flag.Names(), name) {
			_, isBool := flag.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}

// onePath returns the only positional argument.
func onePath(c *cli.Context, what string) (string, error) {
	switch c.NArg() {
	case 0:
		return "", usagef("%s: %s is missing", c.Command.Name, what)
	case 1:
		return c.Args().First(), checkNamed(c, what, c.Args().First())
	}
	return "", usagef("%s: unexpected argument %q", c.Command.Name, c.Args().Get(1))
}

// checkNamed refuses an argument that names nothing.
func checkNamed(c *cli.Context, what, name string) error {
	if name == "" {
		return usagef("%s: %s is empty", c.Command.Name, what)
	}
	return nil
}

// namedModelFlag is for commands whose argument is a model: those that take other
// arguments, or none, know it as -m.
func namedModelFlag() cli.Flag {
	return &cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "another way to give MODEL"}
}

// oneModel returns the model of such a command: where none is given, the one that
// other commands take then.
func oneModel(c *cli.Context) (string, error) {
	if !c.IsSet("model") && c.NArg() == 0 {
		return modelPath(c)
	}
	if !c.IsSet("model") {
		return onePath(c, "MODEL")
	}
	if c.NArg() > 0 {
		return "", usagef("%s: %q is a second model beside -m", c.Command.Name, c.Args().First())
	}
	return c.String("model"), checkNamed(c, "-m", c.String("model"))
}

// noArguments refuses positional arguments.
func noArguments(c *cli.Context) error {
	if c.NArg() > 0 {
		return usagef("%s: unexpected argument %q; a model is given with -m", c.Command.Name, c.Args().First())
	}
	return nil
}
