package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/les-project/les/cgo/draft"
	"github.com/les-project/les/cgo/llama"
)

// programFlags are llama.cpp's words for the --draft* flags of run.
var programFlags = map[string]string{"--draft": "-md", "--draft-type": "--spec-type", "--draft-max": "--spec-draft-n-max"}

// translateDrafts puts the --draft* flags of run into the program's words. The type
// that is not given, or auto, is that of the drafter.
func (l *launch) translateDrafts() error {
	var args []string
	kind, path, asked := "", "", false
	for i := 0; i < len(l.args); i++ {
		name, value, joined := strings.Cut(l.args[i], "=")
		word, ours := programFlags[name]
		if !ours {
			args = append(args, l.args[i])
			continue
		}
		asked = true
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
	l.args, l.drafter = args, path
	if path == "" && kind == draftAuto {
		return usagef("--draft-type %s needs a file to look at: --draft is missing", draftAuto)
	}
	if path != "" && (kind == draftAuto || !slices.Contains(args, "--spec-type")) {
		kind, err := draftTypeOf(path)
		if err != nil {
			return err
		}
		l.args = append(l.args, "--spec-type", kind)
	}
	if asked {
		l.planDepth()
	}
	return nil
}

// planDepth lets drafters with a model draft as many tokens as in run, where
// nothing is said of it: the program's own default is less. It takes no more than a
// drafter was made for.
func (l *launch) planDepth() {
	const depth, variable = "--spec-draft-n-max", "LLAMA_ARG_SPEC_DRAFT_N_MAX"
	if kind, _ := l.value([]string{"--spec-type"}); strings.HasPrefix(kind, "draft-") && !l.has([]string{depth}) && os.Getenv(variable) == "" {
		l.args = append(l.args, depth, strconv.Itoa(draftMaxDefault))
	}
}

// checkDrafter refuses a drafter that does not fit the model, as run does: the
// program would start, and fail each request.
func (l *launch) checkDrafter(path string) error {
	kind, _ := l.value([]string{"--spec-type"})
	if l.drafter == "" || !draft.Known(kind) {
		return nil
	}
	target, err := llama.LoadModel(path, llama.ModelParams{NoAlloc: true})
	if err != nil {
		return err
	}
	defer target.Close()
	model, err := llama.LoadModel(l.drafter, llama.ModelParams{NoAlloc: true, NextN: draft.UsesNextN(kind)})
	if err != nil {
		return err
	}
	defer model.Close()
	if err := draft.Fits(kind, model, target); err != nil {
		return fmt.Errorf("%s: cannot draft: %w", l.drafter, err)
	}
	return nil
}
