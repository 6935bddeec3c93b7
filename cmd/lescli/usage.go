package main

import (
	"fmt"
	"regexp"
	"strings"
)

// usageError is a mistake in the command line, as opposed to a failure of the
// work asked for.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// Texts of package flag, which writes every flag with one dash.
const (
	flagUnknown      = "flag provided but not defined: -"
	flagWithoutValue = "flag needs an argument: -"
)

var flagWithValue = regexp.MustCompile(` for (?:flag )?-([^\s:]+): `)

// flagError says what package flag found wrong with a command line, in our words
// and with flags as they were typed.
func flagError(args []string, command string, err error) error {
	text := err.Error()
	if name, ok := strings.CutPrefix(text, flagUnknown); ok {
		text = "there is no flag " + typed(args, name)
	} else if name, ok := strings.CutPrefix(text, flagWithoutValue); ok {
		text = typed(args, name) + " needs a value"
	} else {
		text = flagWithValue.ReplaceAllStringFunc(text, func(part string) string {
			return " for " + typed(args, flagWithValue.FindStringSubmatch(part)[1]) + ": "
		})
	}
	if command == "" {
		return usagef("%s; lescli --help lists them", text)
	}
	return usagef("%s: %s; lescli %s --help lists the flags", command, text, command)
}

// typed is a flag as it is among the arguments.
func typed(args []string, name string) string {
	for _, arg := range args {
		flag, _, _ := strings.Cut(arg, "=")
		if bare := strings.TrimLeft(flag, "-"); bare == name && bare != flag {
			return flag
		}
	}
	return "--" + name
}
