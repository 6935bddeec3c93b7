package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
)

// Help is for terminals of helpWidth columns. It begins at column helpIndent, and what
// flags mean helpNames behind that: the names of nearly all flags are shorter.
const (
	helpWidth  = 80
	helpIndent = 3
	helpNames  = 26
)

// helpTemplate is the help of a command. The library's own breaks lines anew that
// flagHelp has broken.
const helpTemplate = `NAME:
   {{template "helpNameTemplate" .}}

USAGE:
   {{template "usageTemplate" .}}{{if .Description}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}{{end}}{{if .VisibleFlags}}

OPTIONS:{{range .VisibleFlags}}
   {{.}}{{end}}{{end}}
`

func init() {
	cli.FlagStringer = flagHelp
	cli.HelpPrinter = func(out io.Writer, template string, data any) {
		cli.HelpPrinterCustom(out, template, data, map[string]any{"wrapAt": func() int { return helpWidth }})
	}
}

// flagHelp is what the help of a command says of a flag.
func flagHelp(f cli.Flag) string {
	flag := f.(cli.DocGenerationFlag)
	names := make([]string, len(flag.Names()))
	for i, name := range flag.Names() {
		names[i] = dashed(name)
	}
	label, usage := strings.Join(names, ", "), flag.GetUsage()
	if slice, ok := f.(cli.DocGenerationSliceFlag); ok && slice.IsSliceFlag() {
		label += " value,value"
	} else if flag.TakesValue() {
		label += " value"
	}
	// Lists are told as they are typed.
	text := strings.ReplaceAll(strings.ReplaceAll(flag.GetDefaultText(), `", "`, ","), `"`, "")
	if text != "" && text != "false" {
		usage += fmt.Sprintf(" (default: %s)", text)
	}
	return beside(label, usage, helpNames, helpIndent+helpNames)
}

// dashed is a flag as it is typed.
func dashed(name string) string {
	if len(name) <= len("ub") {
		return "-" + name
	}
	return "--" + name
}

// beside puts text into a column that begins behind so many characters, with a label
// before it, and padding before each line but the first.
func beside(label, text string, behind, padding int) string {
	var out strings.Builder
	next := "\n" + strings.Repeat(" ", padding)
	fmt.Fprintf(&out, "%-*s", behind, label)
	if len(label) >= behind {
		out.WriteString(next)
	}
	room := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
			room = helpWidth - helpIndent - behind
		case len(word)+1 > room:
			out.WriteString(next)
			room = helpWidth - helpIndent - behind
		default:
			out.WriteByte(' ')
			room--
		}
		out.WriteString(word)
		room -= len(word)
	}
	return out.String()
}
