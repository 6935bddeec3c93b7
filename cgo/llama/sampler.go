package llama

/*
#include "llama.h"
*/
import "C"

// SamplerParams choose how tokens are drawn. A temperature of zero or less
// takes the likeliest token; TopK 0 and TopP 1 or 0 leave all tokens in.
type SamplerParams struct {
	Temperature float64
	TopK        int
	TopP        float64
	Seed        uint32
}

// Sampler draws tokens from logits.
type Sampler struct {
	chain *C.struct_llama_sampler
}

// NewSampler makes a sampler.
func NewSampler(params SamplerParams) *Sampler {
	chain := C.llama_sampler_chain_init(C.llama_sampler_chain_default_params())
	if params.Temperature <= 0 {
		C.llama_sampler_chain_add(chain, C.llama_sampler_init_greedy())
		return &Sampler{chain: chain}
	}
	if params.TopK > 0 {
		C.llama_sampler_chain_add(chain, C.llama_sampler_init_top_k(C.int32_t(params.TopK)))
	}
	if params.TopP > 0 && params.TopP < 1 {
		C.llama_sampler_chain_add(chain, C.llama_sampler_init_top_p(C.float(params.TopP), 1))
	}
	C.llama_sampler_chain_add(chain, C.llama_sampler_init_temp(C.float(params.Temperature)))
	C.llama_sampler_chain_add(chain, C.llama_sampler_init_dist(C.uint32_t(params.Seed)))
	return &Sampler{chain: chain}
}

// Close frees the sampler.
func (s *Sampler) Close() {
	if s.chain != nil {
		C.llama_sampler_free(s.chain)
		s.chain = nil
	}
}

// Sample draws the token that follows the i-th token of the last batch, -1 for
// its last output.
func (s *Sampler) Sample(lctx *Context, i int) Token {
	return Token(C.llama_sampler_sample(s.chain, lctx.lctx, C.int32_t(i)))
}
