package main

import (
	"slices"
	"strings"
)

// programFlags are llama.cpp's words for the --draft* flags of run.
var programFlags = map[string]string{"--draft": "-md", "--draft-type": "--spec-type", "--draft-max": "--spec-draft-n-max"}

// translateDrafts puts the --draft* flags of run into the program's words. The type
// that is not given, or auto, is that of the drafter.
func (l *launch) translateDrafts() error {
	var args []string
	kind, path := "", ""
	for i := 0; i < len(l.args); i++ {
		name, value, joined := strings.Cut(l.args[i], "=")
		word, ours := programFlags[name]
		if !ours {
			args = append(args, l.args[i])
			continue
		}
		if !joined {
			if i++; i == len(l.args) {
				return usagef("%s has no value", name)
			}
			value = l.args[i]
		}
		switch {
		case value == "":
			return usagef("%s is empty", name)
		case name == "--draft-type" && value == draftAuto:
			kind = value
			continue
		case name == "--draft":
			path = value
		}
		args = append(args, word, value)
	}
	l.args = args
	if kind == "" && (path == "" || slices.Contains(args, "--spec-type")) {
		return nil
	}
	if path == "" {
		return usagef("--draft-type %s needs a file to look at: --draft is missing", draftAuto)
	}
	kind, err := draftTypeOf(path)
	l.args = append(l.args, "--spec-type", kind)
	return err
}
