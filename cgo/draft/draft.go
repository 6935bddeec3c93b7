// Package draft runs llama.cpp's own drafters for speculative decoding: a block
// drafter (DSpark, DFlash), a NextN block (MTP), EAGLE-3, a small model of the
// same vocabulary, or n-grams of the text so far. How much of a draft is
// verified, and whether one is made at all, is for the caller to decide.
//
// C owns the memory behind a Drafter. A Drafter belongs to one context and is
// not safe for concurrent use; it is closed before that context.
package draft

/*
#include "les-draft.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/dspark"
)

// Params say which drafter is opened.
type Params struct {
	Type    string       // upstream's name, such as draft-dspark
	Model   *llama.Model // of the drafter; nil where the type needs none
	Max     int          // most tokens of a draft
	Threads int
}

// Drafter proposes tokens.
type Drafter struct {
	draft  *C.struct_les_draft
	tokens [dspark.WidthMax]C.llama_token
	conf   [dspark.WidthMax]C.float
}

// Known tells whether llama.cpp has a type of drafter.
func Known(name string) (known bool) {
	_ = withCString(name, func(text *C.char) { known = bool(C.les_draft_type_known(text)) })
	return known
}

// NeedsModel tells whether a type drafts with a model file of its own.
func NeedsModel(name string) (needs bool) {
	_ = withCString(name, func(text *C.char) { needs = bool(C.les_draft_type_needs_model(text)) })
	return needs
}

// UsesNextN tells whether a type drafts with the NextN block of a model, which
// is then to be loaded.
func UsesNextN(name string) (uses bool) {
	_ = withCString(name, func(text *C.char) { uses = bool(C.les_draft_type_uses_nextn(text)) })
	return uses
}

// TypeOf is the type that fits a model file.
func TypeOf(path string) (string, error) {
	var buf [64]C.char
	length := C.int32_t(-1)
	err := withCString(path, func(text *C.char) { length = C.les_draft_type_of_file(text, &buf[0], C.size_t(len(buf))) })
	if err != nil {
		return "", err
	}
	if length < 0 {
		return "", fmt.Errorf("%s: cannot tell which drafter this is", path)
	}
	return C.GoString(&buf[0]), nil
}

// Fits refuses, with the reason, a drafter's model that was made for another one
// than target. Of neither the weights are needed.
func Fits(kind string, model, target *llama.Model) error {
	var reason [512]C.char
	fits := false
	err := withCString(kind, func(text *C.char) {
		fits = bool(C.les_draft_fits(text, (*C.struct_llama_model)(model.Pointer()), (*C.struct_llama_model)(target.Pointer()), &reason[0], C.size_t(len(reason))))
	})
	if err == nil && !fits {
		err = errors.New(C.GoString(&reason[0]))
	}
	return err
}

// Open starts a drafter for a context. A drafter that does not fit the model is
// refused with the reason.
func Open(lctx *llama.Context, params Params) (*Drafter, error) {
	if params.Max > dspark.WidthMax {
		return nil, fmt.Errorf("drafts of %d tokens are asked for, at most %d are possible", params.Max, dspark.WidthMax)
	}
	d := &Drafter{}
	var reason [512]C.char
	err := withCString(params.Type, func(text *C.char) {
		request := C.struct_les_draft_params{
			_type: text, target: (*C.struct_llama_context)(lctx.Pointer()),
			n_max: C.int32_t(params.Max), n_threads: C.int32_t(params.Threads),
		}
		if params.Model != nil {
			request.model = (*C.struct_llama_model)(params.Model.Pointer())
		}
		d.draft = C.les_draft_open(&request, &reason[0], C.size_t(len(reason)))
	})
	if err != nil {
		return nil, err
	}
	if d.draft == nil {
		return nil, errors.New(C.GoString(&reason[0]))
	}
	return d, nil
}

// Close frees the drafter; its model is freed by its owner afterwards.
func (d *Drafter) Close() {
	if d.draft != nil {
		C.les_draft_close(d.draft)
		d.draft = nil
	}
}

// Context is the drafter's own, nil where it has none. It is closed with the
// drafter.
func (d *Drafter) Context() *llama.Context {
	if lctx := C.les_draft_context(d.draft); lctx != nil {
		return llama.BorrowContext(unsafe.Pointer(lctx))
	}
	return nil
}

// Max is the most tokens a draft can have.
func (d *Drafter) Max() int { return int(C.les_draft_max(d.draft)) }

// Sequential tells whether a longer draft takes longer.
func (d *Drafter) Sequential() bool { return bool(C.les_draft_sequential(d.draft)) }

// Clear forgets the request before this one.
func (d *Drafter) Clear() { C.les_draft_clear(d.draft) }

// Begin tells that the prompt was processed.
func (d *Drafter) Begin(prompt []llama.Token) {
	C.les_draft_begin(d.draft, tokensOf(prompt), C.int32_t(len(prompt)))
}

// tokensOf is where tokens lie, nil for none.
func tokensOf(tokens []llama.Token) *C.llama_token {
	return (*C.llama_token)(unsafe.Pointer(unsafe.SliceData(tokens)))
}

// Process follows a batch that the context has just decoded. before are all
// tokens of the sequence up to the batch; a drafter that was left behind catches
// up with them, or goes on without.
func (d *Drafter) Process(batch *llama.Batch, before []llama.Token) error {
	raw := *(*C.struct_llama_batch)(batch.Pointer())
	if C.les_draft_process(d.draft, raw, tokensOf(before), C.int32_t(len(before))) != 0 {
		return errors.New("the drafter cannot follow the model")
	}
	return nil
}

// Draft appends at most n tokens to follow those given, the last of which the
// context has not decoded yet, and the confidences of as many of them as the
// drafter gives.
func (d *Drafter) Draft(tokens []llama.Token, n int, draft []llama.Token, confidences []float32) ([]llama.Token, []float32) {
	var nConf C.int32_t
	got := C.les_draft_make(d.draft, tokensOf(tokens), C.int32_t(len(tokens)), C.int32_t(min(n, len(d.tokens))),
		&d.tokens[0], &d.conf[0], &nConf)
	for _, token := range d.tokens[:got] {
		draft = append(draft, llama.Token(token))
	}
	for _, confidence := range d.conf[:nConf] {
		confidences = append(confidences, float32(confidence))
	}
	return draft, confidences
}

// Accept tells how many tokens of the last draft the model agreed with, after
// Process.
func (d *Drafter) Accept(n int) { C.les_draft_accept(d.draft, C.int32_t(n)) }
