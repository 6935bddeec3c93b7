package synth

import "github.com/les-project/les/cgo/llama"

// attention adds plain attention; queries is the number of query heads, twice
// that of the model where each has an output gate.
func (p *plan) attention(b string, queries int64) {
	s := p.shape
	p.norm(b+"attn_norm", s.embd)
	p.weight(b+"attn_q", s.embd, s.headDim*queries)
	p.weight(b+"attn_k", s.embd, s.headDim*s.headsKV)
	p.matrix(b+"attn_v", llama.Q6K, stdMatrix, s.embd, s.headDim*s.headsKV)
	p.weight(b+"attn_output", s.headDim*s.heads, s.embd)
}

func (p *plan) headNorms(b string) {
	p.norm(b+"attn_q_norm", p.shape.headDim)
	p.norm(b+"attn_k_norm", p.shape.headDim)
}

func (p *plan) headKeys() {
	s := p.shape
	p.set("attention.key_length", s.headDim)
	p.set("attention.value_length", s.headDim)
	p.set("rope.dimension_count", s.ropeDim)
}

// routed adds the router and the routed experts of a layer.
func (p *plan) routed(b string) {
	s := p.shape
	p.float(b+"ffn_gate_inp.weight", normal, stdRouter, s.embd, s.experts)
	if s.merged {
		p.matrix(b+"ffn_gate_up_exps", s.expertType, stdMatrix, s.embd, 2*s.expertFF, s.experts)
	} else {
		p.matrix(b+"ffn_gate_exps", s.expertType, stdMatrix, s.embd, s.expertFF, s.experts)
		p.matrix(b+"ffn_up_exps", s.expertType, stdMatrix, s.embd, s.expertFF, s.experts)
	}
	p.matrix(b+"ffn_down_exps", s.expertType, stdExpertDown, s.expertFF, s.embd, s.experts)
	if s.scaled {
		for _, name := range []string{"gate", "up"} { // a factor of down would keep the lookahead off too
			p.float(b+"ffn_"+name+"_exps.scale", normal, 1, s.experts)
		}
	}
}

// feedForward adds an always-used gate, up and down of that width; suffix is
// empty for a dense layer.
func (p *plan) feedForward(b, suffix string, width int64) {
	s := p.shape
	p.weight(b+"ffn_gate"+suffix, s.embd, width)
	p.weight(b+"ffn_up"+suffix, s.embd, width)
	p.matrix(b+"ffn_down"+suffix, llama.Q6K, stdMatrix, width, s.embd)
}

// nextnHead adds what a NextN block has beyond a layer.
func (p *plan) nextnHead(b string) {
	s := p.shape
	p.weight(b+"nextn.eh_proj", 2*s.embd, s.embd)
	p.norm(b+"nextn.enorm", s.embd)
	p.norm(b+"nextn.hnorm", s.embd)
	p.norm(b+"nextn.shared_head_norm", s.embd)
}

// qwen3 covers qwen3moe and, without experts, qwen3.
func (p *plan) qwen3() {
	s := p.shape
	p.headKeys()
	p.embeddings()
	for layer := range s.layers {
		b := block(layer)
		p.attention(b, s.heads)
		p.headNorms(b)
		p.norm(b+"ffn_norm", s.embd)
		if s.experts > 0 {
			p.routed(b)
		} else {
			p.feedForward(b, "", s.ff)
		}
	}
}

// qwen35moe is the hybrid with gated delta net layers.
func (p *plan) qwen35moe() {
	s := p.shape
	p.headKeys()
	pairs := int32(s.ropeDim / 2)
	p.set("rope.dimension_sections", []int32{pairs - 2*(pairs/3), pairs / 3, pairs / 3, 0})
	p.set("expert_shared_feed_forward_length", s.sharedFF)
	p.set("ssm.conv_kernel", 4)
	p.set("ssm.inner_size", s.ssmState*s.ssmValues)
	p.set("ssm.state_size", s.ssmState)
	p.set("ssm.time_step_rank", s.ssmValues)
	p.set("ssm.group_count", s.ssmKeys)
	p.set("full_attention_interval", s.fullEvery)
	p.embeddings()
	for layer := range s.layers + s.nextn {
		b := block(layer)
		if layer >= s.layers || (layer+1)%s.fullEvery == 0 {
			p.attention(b, 2*s.heads)
			p.headNorms(b)
		} else {
			p.deltaNet(b)
		}
		p.norm(b+"post_attention_norm", s.embd)
		p.routed(b)
		p.float(b+"ffn_gate_inp_shexp.weight", normal, stdMatrix, s.embd)
		p.feedForward(b, "_shexp", s.sharedFF)
		if layer >= s.layers {
			p.nextnHead(b)
		}
	}
}

// deltaNet adds the recurrent half of a gated delta net layer.
func (p *plan) deltaNet(b string) {
	s := p.shape
	keys, values := s.ssmState*s.ssmKeys, s.ssmState*s.ssmValues
	p.norm(b+"attn_norm", s.embd)
	p.weight(b+"attn_qkv", s.embd, 2*keys+values)
	p.weight(b+"attn_gate", s.embd, values)
	p.float(b+"ssm_conv1d.weight", normal, stdConv, 4, 2*keys+values)
	p.float(b+"ssm_dt.bias", normal, stdMatrix, s.ssmValues)
	p.float(b+"ssm_a", negative, stdDecay, s.ssmValues)
	p.weight(b+"ssm_beta", s.embd, s.ssmValues)
	p.weight(b+"ssm_alpha", s.embd, s.ssmValues)
	p.norm(b+"ssm_norm", s.ssmState)
	p.weight(b+"ssm_out", values, s.embd)
}

// deepseek2 is multi-head latent attention with leading dense layers.
func (p *plan) deepseek2() {
	s := p.shape
	p.set("leading_dense_block_count", s.denseLead)
	p.set("attention.q_lora_rank", s.qLoRA)
	p.set("attention.kv_lora_rank", s.kvLoRA)
	p.set("attention.key_length", s.kvLoRA+s.ropeDim)
	p.set("attention.value_length", s.kvLoRA)
	p.set("attention.key_length_mla", s.headDim+s.ropeDim)
	p.set("attention.value_length_mla", s.headDim)
	p.set("rope.dimension_count", s.ropeDim)
	p.set("expert_shared_count", s.sharedFF/s.expertFF)
	p.set("expert_weights_scale", float32(1))
	p.set("expert_weights_norm", true)
	p.set("expert_gating_func", 2)
	p.embeddings()
	for layer := range s.layers + s.nextn {
		b := block(layer)
		p.latentAttention(b)
		p.norm(b+"ffn_norm", s.embd)
		if layer < s.denseLead {
			p.feedForward(b, "", s.ff)
			continue
		}
		p.routed(b)
		p.float(b+"exp_probs_b.bias", normal, stdMatrix, s.experts)
		p.feedForward(b, "_shexp", s.sharedFF)
		if layer >= s.layers {
			p.nextnHead(b)
		}
	}
}

func (p *plan) latentAttention(b string) {
	s := p.shape
	p.norm(b+"attn_norm", s.embd)
	p.weight(b+"attn_q_a", s.embd, s.qLoRA)
	p.norm(b+"attn_q_a_norm", s.qLoRA)
	p.weight(b+"attn_q_b", s.qLoRA, s.heads*(s.headDim+s.ropeDim))
	p.weight(b+"attn_kv_a_mqa", s.embd, s.kvLoRA+s.ropeDim)
	p.norm(b+"attn_kv_a_norm", s.kvLoRA)
	p.weight(b+"attn_k_b", s.headDim, s.kvLoRA, s.heads)
	p.weight(b+"attn_v_b", s.kvLoRA, s.headDim, s.heads)
	p.weight(b+"attn_output", s.heads*s.headDim, s.embd)
}

// gptoss has biases on everything and attention sinks.
func (p *plan) gptoss() {
	s := p.shape
	p.headKeys()
	p.set("attention.sliding_window", int(s.window))
	p.embeddings()
	for layer := range s.layers {
		b := block(layer)
		p.attention(b, s.heads)
		p.float(b+"attn_q.bias", normal, stdMatrix, s.headDim*s.heads)
		p.float(b+"attn_k.bias", normal, stdMatrix, s.headDim*s.headsKV)
		p.float(b+"attn_v.bias", normal, stdMatrix, s.headDim*s.headsKV)
		p.float(b+"attn_output.bias", normal, stdMatrix, s.embd)
		p.float(b+"attn_sinks.weight", normal, 1, s.heads)
		p.norm(b+"post_attention_norm", s.embd)
		p.routed(b)
		p.float(b+"ffn_gate_inp.bias", normal, stdMatrix, s.experts)
		p.float(b+"ffn_gate_exps.bias", normal, stdBias, s.expertFF, s.experts)
		p.float(b+"ffn_up_exps.bias", normal, stdBias, s.expertFF, s.experts)
		p.float(b+"ffn_down_exps.bias", normal, stdBias, s.embd, s.experts)
	}
}

// eagle3 is a drafter for a model of the same width: one layer, which reads the
// inputs of three layers of that model.
func (p *plan) eagle3() {
	s := p.shape
	p.headKeys()
	p.set("target_layers", []int32{1, 2, 3})
	p.set("target_hidden_size", s.embd)
	p.embeddings()
	p.weight("fc", 3*s.embd, s.embd)
	b := block(0)
	p.norm(b+"attn_norm", s.embd)
	p.norm(b+"attn_norm_2", s.embd)
	p.weight(b+"attn_q", 2*s.embd, s.headDim*s.heads)
	p.weight(b+"attn_k", 2*s.embd, s.headDim*s.headsKV)
	p.weight(b+"attn_v", 2*s.embd, s.headDim*s.headsKV)
	p.weight(b+"attn_output", s.headDim*s.heads, s.embd)
	p.norm(b+"ffn_norm", s.embd)
	p.feedForward(b, "", s.ff)
}
