package llama

/*
#include "llama.h"
*/
import "C"

import "unsafe"

// Batch is a list of tokens to decode, of one or more sequences.
type Batch struct {
	batch    C.struct_llama_batch
	capacity int
}

// NewBatch makes an empty batch for at most capacity tokens.
func NewBatch(capacity int) *Batch {
	return &Batch{batch: C.llama_batch_init(C.int32_t(capacity), 0, 1), capacity: capacity}
}

// Close frees the batch.
func (b *Batch) Close() {
	if b.capacity > 0 {
		C.llama_batch_free(b.batch)
		b.capacity = 0
	}
}

// Pointer is the llama_batch, for packages with their own C side.
func (b *Batch) Pointer() unsafe.Pointer { return unsafe.Pointer(&b.batch) }

// Clear empties the batch.
func (b *Batch) Clear() { b.batch.n_tokens = 0 }

// Len is the number of tokens in the batch.
func (b *Batch) Len() int { return int(b.batch.n_tokens) }

// Add appends a token at a position of a sequence; logits asks for its output.
// Adding to a full batch is a caller's bug.
func (b *Batch) Add(token Token, pos, seq int, logits bool) {
	i := b.Len()
	if i >= b.capacity {
		panic("llama: batch is full")
	}
	unsafe.Slice(b.batch.token, b.capacity)[i] = C.llama_token(token)
	unsafe.Slice(b.batch.pos, b.capacity)[i] = C.llama_pos(pos)
	unsafe.Slice(b.batch.n_seq_id, b.capacity)[i] = 1
	*unsafe.Slice(b.batch.seq_id, b.capacity)[i] = C.llama_seq_id(seq)
	output := C.int8_t(0)
	if logits {
		output = 1
	}
	unsafe.Slice(b.batch.logits, b.capacity)[i] = output
	b.batch.n_tokens++
}
