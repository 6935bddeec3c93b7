package llama

/*
#include "llama.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// ErrContextFull is returned by Decode when the batch does not fit into what
// is left of the context.
var ErrContextFull = errors.New("the context is full")

// ContextParams choose the size of a context. Zero fields take llama.cpp's
// defaults.
type ContextParams struct {
	Tokens  int // context length, over all sequences
	Batch   int // most tokens in one Decode
	Ubatch  int // most tokens computed at once
	Seqs    int // most sequences
	Threads int
	Observe Observer // shown every node that is computed; nil for none
	// Rollback is how many tokens Truncate must be able to take back from models
	// with recurrent layers; each takes memory for one more state.
	Rollback int
	// Outputs is the most tokens of a ubatch whose logits are wanted, all if 0. Each
	// takes memory for a number of every token of the vocabulary.
	Outputs int
}

// SeqsMax is the most sequences that a context can have.
func SeqsMax() int { return int(C.llama_max_parallel_sequences()) }

// Observer is a C function of the type ggml_backend_sched_eval_callback.
type Observer unsafe.Pointer

// Context is the state of generation on a model.
type Context struct {
	lctx  *C.struct_llama_context
	vocab int
}

// NewContext makes a context. The model must outlive it.
func NewContext(model *Model, params ContextParams) (*Context, error) {
	cparams := C.llama_context_default_params()
	cparams.n_ctx = C.uint32_t(params.Tokens)
	set := func(field *C.uint32_t, value int) {
		if value > 0 {
			*field = C.uint32_t(value)
		}
	}
	set(&cparams.n_batch, params.Batch)
	set(&cparams.n_ubatch, params.Ubatch)
	set(&cparams.n_seq_max, params.Seqs)
	set(&cparams.n_rs_seq, params.Rollback)
	set(&cparams.n_outputs_max, params.Outputs)
	if params.Threads > 0 {
		cparams.n_threads = C.int32_t(params.Threads)
		cparams.n_threads_batch = C.int32_t(params.Threads)
	}
	if params.Observe != nil {
		cparams.cb_eval = C.ggml_backend_sched_eval_callback(params.Observe)
	}
	var lctx *C.struct_llama_context
	reason := errorsDuring("llama.cpp gave no reason", func() {
		lctx = C.llama_init_from_model(model.model, cparams)
	})
	if lctx == nil {
		return nil, fmt.Errorf("%s: cannot make a context of %d tokens: %s", model.path, params.Tokens, reason)
	}
	return &Context{lctx: lctx, vocab: model.VocabSize()}, nil
}

// Close frees the context.
func (c *Context) Close() {
	if c.lctx != nil {
		C.llama_free(c.lctx)
		c.lctx = nil
	}
}

// Pointer is the llama_context, for packages with their own C side.
func (c *Context) Pointer() unsafe.Pointer { return unsafe.Pointer(c.lctx) }

// Tokens is the context length one sequence has.
func (c *Context) Tokens() int { return int(C.llama_n_ctx_seq(c.lctx)) }

// Batch is the most tokens one Decode takes. A model without memory, such as a
// diffusion model, computes a batch at once, and llama.cpp aborts on one that is
// wider.
func (c *Context) Batch() int {
	if C.llama_get_memory(c.lctx) == nil {
		return c.Ubatch()
	}
	return int(C.llama_n_batch(c.lctx))
}

// Ubatch is the most tokens computed at once.
func (c *Context) Ubatch() int { return int(C.llama_n_ubatch(c.lctx)) }

// Threads is the number of compute threads.
func (c *Context) Threads() int { return int(C.llama_n_threads(c.lctx)) }

// Decode computes the batch and waits for it.
func (c *Context) Decode(batch *Batch) error {
	var code C.int32_t
	reason := errorsDuring("llama.cpp gave no reason", func() {
		code = C.llama_decode(c.lctx, batch.batch)
		C.llama_synchronize(c.lctx)
	})
	switch {
	case code == 0:
		return nil
	case code == 1:
		return ErrContextFull
	}
	return fmt.Errorf("decode failed with code %d: %s", int(code), reason)
}

// Logits are those of the i-th token of the last batch, or of its last output
// for -1. The slice is C memory and valid until the next Decode.
func (c *Context) Logits(i int) ([]float32, error) {
	logits := C.llama_get_logits_ith(c.lctx, C.int32_t(i))
	if logits == nil {
		return nil, fmt.Errorf("no logits for token %d of the batch", i)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(logits)), c.vocab), nil
}

// Clear forgets all sequences.
func (c *Context) Clear() {
	C.llama_memory_clear(C.llama_get_memory(c.lctx), true)
}

// CanRollback tells whether Truncate can take back the last tokens: always for
// attention, and for recurrent layers where Rollback was asked for and llama.cpp
// keeps their states.
func (c *Context) CanRollback() bool {
	model := C.llama_get_model(c.lctx)
	recurrent := bool(C.llama_model_is_recurrent(model)) || bool(C.llama_model_is_hybrid(model))
	return C.llama_get_memory(c.lctx) != nil && (!recurrent || C.llama_n_rs_seq(c.lctx) > 0)
}

// ErrNoRollback is returned by Truncate for a model whose state cannot be taken
// back so far.
var ErrNoRollback = errors.New("the model's state cannot be taken back")

// Truncate forgets the tokens of a sequence from a position on.
func (c *Context) Truncate(seq, pos int) error {
	if !C.llama_memory_seq_rm(C.llama_get_memory(c.lctx), C.llama_seq_id(seq), C.llama_pos(pos), -1) {
		return ErrNoRollback
	}
	return nil
}

// BorrowContext is a context that somebody else made and frees, for its figures:
// it must not be closed.
func BorrowContext(pointer unsafe.Pointer) *Context {
	lctx := (*C.struct_llama_context)(pointer)
	vocab := C.llama_model_get_vocab(C.llama_get_model(lctx))
	return &Context{lctx: lctx, vocab: int(C.llama_vocab_n_tokens(vocab))}
}
