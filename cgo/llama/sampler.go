package llama

/*
#include "sample.h"
*/
import "C"

import (
	"errors"
	"fmt"
)

// SamplerParams choose how tokens are drawn. A temperature of zero or less
// takes the likeliest token; TopK 0 and TopP 1 or 0 leave all tokens in.
type SamplerParams struct {
	Temperature float64
	TopK        int
	TopP        float64
	Seed        uint32
	Grammar     string // GBNF with a rule named root, empty for none
}

// ErrNoToken is why Sample returns NoToken.
var ErrNoToken = errors.New("no token of the vocabulary fits the grammar here")

// NoToken is none.
const NoToken Token = -1

// Sampler draws tokens from logits.
type Sampler struct {
	chain *C.struct_llama_sampler
}

// NewSampler makes a sampler. The model is that of the grammar and must outlive
// it; without a grammar it may be nil, and to know whether a grammar is one that
// names no tokens.
func NewSampler(model *Model, params SamplerParams) (*Sampler, error) {
	s := newChain()
	if params.Grammar != "" {
		if err := s.constrain(model, params.Grammar); err != nil {
			s.Close()
			return nil, err
		}
	}
	s.add(params)
	return s, nil
}

func newChain() *Sampler {
	return &Sampler{chain: C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())}
}

// constrain leaves only tokens that the grammar allows. It comes first, so that
// what the others choose from is allowed.
func (s *Sampler) constrain(model *Model, grammar string) (err error) {
	var rules *C.struct_llama_sampler
	var vocab *C.struct_llama_vocab
	if model != nil {
		vocab = model.vocab
	}
	reason := errorsDuring("it has no rule named root, or is not understood", func() {
		err = withCString(grammar, func(text *C.char) {
			_ = withCString("root", func(root *C.char) {
				rules = C.llama_sampler_init_grammar(vocab, text, root)
			})
		})
	})
	if err == nil && rules == nil {
		err = fmt.Errorf("the grammar is refused: %s", reason)
	}
	if err == nil {
		C.llama_sampler_chain_add(s.chain, rules)
	}
	return err
}

// add puts those that choose into the chain.
func (s *Sampler) add(params SamplerParams) {
	chain := s.chain
	if params.Temperature <= 0 {
		C.llama_sampler_chain_add(chain, C.llama_sampler_init_greedy())
		return
	}
	if params.TopK > 0 {
		C.llama_sampler_chain_add(chain, C.llama_sampler_init_top_k(C.int32_t(params.TopK)))
	}
	if params.TopP > 0 && params.TopP < 1 {
		C.llama_sampler_chain_add(chain, C.llama_sampler_init_top_p(C.float(params.TopP), 1))
	}
	C.llama_sampler_chain_add(chain, C.llama_sampler_init_temp(C.float(params.Temperature)))
	C.llama_sampler_chain_add(chain, C.llama_sampler_init_dist(C.uint32_t(params.Seed)))
}

// Close frees the sampler.
func (s *Sampler) Close() {
	if s.chain != nil {
		C.llama_sampler_free(s.chain)
		s.chain = nil
	}
}

// Sample draws the token that follows the i-th token of the last batch, -1 for
// its last output; NoToken where a grammar allows none.
func (s *Sampler) Sample(lctx *Context, i int) Token {
	return Token(C.les_sample(s.chain, lctx.lctx, C.int32_t(i)))
}
