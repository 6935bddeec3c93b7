package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/les-project/les/cgo/llama"
)

// withVocabulary lends the vocabulary of a model, which is there in a moment: what is
// wrong with a text is said before the weights are read.
func withVocabulary(path string, check func(*llama.Model) error) error {
	model, err := llama.LoadModel(path, llama.ModelParams{VocabOnly: true})
	if err != nil {
		return err
	}
	defer model.Close()
	return check(model)
}

// tokensPerByte is more than a vocabulary makes of a byte of text: one at most, but
// that some write a space as three bytes. Beside them are those that begin a text.
const (
	tokensPerByte = 3
	tokensBeside  = 16
)

// borrowedTemplate is the tokenizer of a model without a chat template for which
// llama.cpp has one.
const borrowedTemplate = "tekken"

// check refuses before the weights are read what can be refused without them: a prompt
// that is empty or does not fit, and a grammar that is none. The vocabulary is loaded
// where it may decide: it takes most of a second where it is large.
func (o runOptions) check() error {
	file, err := readModelFile(o.session.path)
	if err != nil {
		return err
	}
	switch {
	case !o.chat:
	case file.template == "" && file.pre == borrowedTemplate:
		return o.checkGrammar()
	case file.template == "":
		return fmt.Errorf("--chat: %s: the model has no chat template", o.session.path)
	default:
		if o.prompt, err = llama.ApplyChat(file.template, userTurn(o.prompt)); err != nil {
			return fmt.Errorf("--chat: %s: %w", o.session.path, err)
		}
		o.chat = false
	}
	room := o.session.origin.length(o.session.context.Tokens, file.Trained, io.Discard)
	if o.prompt != "" && tokensPerByte*len(o.prompt)+tokensBeside < room {
		return o.checkGrammar()
	}
	return withVocabulary(o.session.path, func(model *llama.Model) error {
		if _, err := promptTokens(model, room, o); err != nil {
			return err
		}
		return tryGrammar(model, o.sampler)
	})
}

// checkGrammar loads the vocabulary only for a grammar that names tokens.
func (o runOptions) checkGrammar() error {
	if !strings.Contains(o.sampler.Grammar, "<") {
		return tryGrammar(nil, o.sampler)
	}
	return withVocabulary(o.session.path, func(model *llama.Model) error { return tryGrammar(model, o.sampler) })
}

func tryGrammar(model *llama.Model, params llama.SamplerParams) error {
	sampler, err := llama.NewSampler(model, params)
	if err == nil {
		sampler.Close()
	}
	return err
}
