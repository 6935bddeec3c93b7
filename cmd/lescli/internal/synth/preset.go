// Package synth writes GGUF models of a given shape with random weights.
//
// They are for tests and measurements: the tensor set is what llama.cpp's
// loader asks for, the blocks are valid, the logits are finite, and routing is
// about as varied as in trained models. The same preset, expert type and seed
// always give the same bytes. Memory use does not depend on the model's size.
package synth

import (
	"fmt"
	"strings"

	"github.com/les-project/les/cgo/llama"
)

// Preset is a named shape.
type Preset struct {
	Name  string
	About string
	shape shape
}

// shape holds the numbers of a model. Zero means that the architecture has no
// such part.
type shape struct {
	arch       string
	layers     int64 // without NextN blocks
	nextn      int64 // NextN blocks after the last layer
	denseLead  int64 // leading layers without experts
	embd       int64
	heads      int64
	headsKV    int64
	headDim    int64
	ropeDim    int64
	ropeBase   float32
	ff         int64 // width of dense layers
	experts    int64
	used       int64
	expertFF   int64
	sharedFF   int64
	vocab      int
	ctxTrain   uint32
	merged     bool  // one ffn_gate_up_exps instead of two tensors
	scaled     bool  // a factor for each expert of each product
	fullEvery  int64 // one attention layer in so many, the rest recurrent
	ssmState   int64
	ssmKeys    int64
	ssmValues  int64
	qLoRA      int64
	kvLoRA     int64
	window     uint32
	expertType llama.TensorType
}

// tinyMoE is the common part of the small presets: rows are multiples of 256
// so that K-quants apply.
var tinyMoE = shape{
	layers: 4, embd: 256, heads: 4, headsKV: 2, headDim: 64, ropeDim: 64, ropeBase: 1e6,
	ff: 512, experts: 8, used: 2, expertFF: 256, vocab: 512, ctxTrain: 4096,
}

func tiny(change func(*shape)) shape {
	s := tinyMoE
	change(&s)
	return s
}

func hybrid(s *shape) {
	s.arch, s.sharedFF, s.ropeDim, s.fullEvery = "qwen35moe", 256, 32, 4
	s.ssmState, s.ssmKeys, s.ssmValues = 128, 1, 2
}

func leading(s *shape) {
	s.arch, s.layers, s.denseLead, s.nextn = "deepseek2", 5, 2, 1
	s.headsKV, s.sharedFF, s.ropeDim, s.qLoRA, s.kvLoRA = 1, 256, 32, 256, 256
}

// a3b is the shape of the 35B-A3B models, vocabulary included.
var a3b = shape{
	arch: "qwen35moe", layers: 40, embd: 2048, heads: 16, headsKV: 2, headDim: 256,
	ropeDim: 64, ropeBase: 1e7, experts: 256, used: 8, expertFF: 512, sharedFF: 512,
	vocab: 248320, ctxTrain: 262144, fullEvery: 4, ssmState: 128, ssmKeys: 16, ssmValues: 32,
}

// oss20b is the shape of gpt-oss-20b, vocabulary included. Its rows are no
// multiple of 256, so what is not in MXFP4 is in Q8_0.
var oss20b = shape{
	arch: "gpt-oss", layers: 24, embd: 2880, heads: 64, headsKV: 8, headDim: 64,
	ropeDim: 64, ropeBase: 150000, experts: 32, used: 4, expertFF: 2880, ff: 2880,
	vocab: 201088, ctxTrain: 131072, window: 128,
}

func a3bHalf() shape {
	s := a3b
	s.layers = 20
	return s
}

// Presets lists what can be made, small ones first.
func Presets() []Preset {
	return []Preset{
		{"tiny-qwen3moe", "4 layers, 8 experts, top-2", tiny(func(s *shape) { s.arch = "qwen3moe" })},
		{"tiny-qwen3moe-scaled", "the same with a factor for each expert, which keeps layers from being fused", tiny(func(s *shape) {
			s.arch, s.scaled = "qwen3moe", true
		})},
		{"tiny-qwen35moe", "3 recurrent layers and 1 attention layer, shared expert", tiny(hybrid)},
		{"tiny-qwen35moe-nextn", "the same with a NextN block after the last layer", tiny(func(s *shape) { hybrid(s); s.nextn = 1 })},
		{"tiny-qwen35moe-merged", "the same with gate and up in one tensor", tiny(func(s *shape) { hybrid(s); s.merged = true })},
		{"tiny-deepseek2", "2 dense layers first, shared expert, a NextN block after the last layer", tiny(leading)},
		{"tiny-deepseek2-merged", "the same with gate and up in one tensor", tiny(func(s *shape) { leading(s); s.merged = true })},
		{"tiny-gptoss", "2 layers, biases on router and experts, sliding window", tiny(func(s *shape) {
			s.arch, s.layers, s.window = "gpt-oss", 2, 128
		})},
		{"tiny-qwen3", "a dense model, without experts", tiny(func(s *shape) {
			s.arch, s.experts, s.used, s.expertFF = "qwen3", 0, 0, 0
		})},
		{"tiny-qwen3-wide", "the same with twice the width", tiny(func(s *shape) {
			s.arch, s.experts, s.used, s.expertFF, s.embd = "qwen3", 0, 0, 0, 512
		})},
		{"tiny-eagle3", "an EAGLE-3 drafter for tiny-qwen3moe and tiny-qwen3, which never guesses right but by chance", tiny(func(s *shape) {
			s.arch, s.layers, s.experts, s.used, s.expertFF = "eagle3", 1, 0, 0, 0
		})},
		{"gpt-oss-20b", "24 layers, width 2880, 32 experts, top-4, expert width 2880; with --experts mxfp4 as published", oss20b},
		{"35b-a3b-half", "35b-a3b with 20 layers instead of 40", a3bHalf()},
		{"35b-a3b", "40 layers, width 2048, 256 experts, top-8, expert width 512", a3b},
	}
}

// Find returns the preset of that name.
func Find(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("unknown preset %q; there are %s", name, strings.Join(names, ", "))
}
