package synth

import (
	"fmt"

	"github.com/les-project/les/cgo/llama"
)

// content says what the elements of a tensor look like.
type content int

const (
	normal   content = iota // mean 0, the tensor's std
	ones                    // all 1
	negative                // minus the absolute value of normal
)

// tensor is one tensor to write.
type tensor struct {
	name    string
	dtype   llama.TensorType
	shape   []int64
	content content
	std     float64
}

// key is one metadata entry to write.
type key struct {
	name  string
	value any
}

// plan collects the keys and tensors of a model in file order.
type plan struct {
	shape   shape
	keys    []key
	tensors []tensor
}

// Standard deviations that give finite activations and varied routing.
const (
	stdEmbedding  = 1.0
	stdMatrix     = 0.02
	stdExpertDown = 0.04
	stdRouter     = 0.03
	stdBias       = 0.5 // large, so that a bias applied to the wrong expert shows
	stdConv       = 0.3
	stdDecay      = 0.5
)

// newPlan lays out the model of a preset.
func newPlan(s shape) *plan {
	p := &plan{shape: s}
	p.commonKeys()
	switch s.arch {
	case "qwen3", "qwen3moe":
		p.qwen3()
	case "qwen35moe":
		p.qwen35moe()
	case "deepseek2":
		p.deepseek2()
	case "gpt-oss":
		p.gptoss()
	case "eagle3":
		p.eagle3()
	default:
		panic("synth: no layout for architecture " + s.arch)
	}
	return p
}

// set adds a key under the architecture's prefix.
func (p *plan) set(name string, value any) {
	p.keys = append(p.keys, key{p.shape.arch + "." + name, value})
}

// fileTypes are the names llama.cpp prints for a file: Q3_K_M, Q4_K_M, Q8_0 and MXFP4.
var fileTypes = map[llama.TensorType]int{llama.Q3K: 12, llama.Q4K: 15, llama.Q8_0: 7, llama.MXFP4: 38}

func (p *plan) commonKeys() {
	s := p.shape
	p.keys = append(p.keys,
		key{"general.architecture", s.arch},
		key{"general.name", "random weights"},
		key{"general.file_type", fileTypes[s.expertType]},
		key{"general.quantization_version", 2})
	p.set("context_length", int(s.ctxTrain))
	p.set("embedding_length", s.embd)
	p.set("block_count", s.layers+s.nextn)
	p.set("attention.head_count", s.heads)
	p.set("attention.head_count_kv", s.headsKV)
	p.set("attention.layer_norm_rms_epsilon", float32(1e-6))
	p.set("rope.freq_base", s.ropeBase)
	if s.ff > 0 {
		p.set("feed_forward_length", s.ff)
	}
	if s.experts > 0 {
		p.set("expert_count", s.experts)
		p.set("expert_used_count", s.used)
		p.set("expert_feed_forward_length", s.expertFF)
	}
	if s.nextn > 0 {
		p.set("nextn_predict_layers", s.nextn)
	}
}

// matrix adds a weight matrix in the given type, or in Q8_0 where its rows do
// not divide into that type's blocks and where the experts are Q8_0, which makes
// a file to quantise.
func (p *plan) matrix(name string, t llama.TensorType, std float64, dims ...int64) {
	if dims[0]%t.BlockElements() != 0 || p.shape.expertType == llama.Q8_0 {
		t = llama.Q8_0
	}
	p.tensors = append(p.tensors, tensor{name + ".weight", t, dims, normal, std})
}

// weight adds a dense matrix of the usual type and spread.
func (p *plan) weight(name string, dims ...int64) {
	p.matrix(name, llama.Q4K, stdMatrix, dims...)
}

// norm adds the weights of a normalisation.
func (p *plan) norm(name string, n int64) {
	p.tensors = append(p.tensors, tensor{name + ".weight", llama.F32, []int64{n}, ones, 0})
}

// float adds an unquantised tensor under its full name.
func (p *plan) float(name string, what content, std float64, dims ...int64) {
	p.tensors = append(p.tensors, tensor{name, llama.F32, dims, what, std})
}

// embeddings adds the tensors outside the layers.
func (p *plan) embeddings() {
	s := p.shape
	p.matrix("token_embd", llama.Q4K, stdEmbedding, s.embd, int64(s.vocab))
	p.norm("output_norm", s.embd)
	p.matrix("output", llama.Q6K, stdMatrix, s.embd, int64(s.vocab))
}

// block is the common start of the tensor names of a layer.
func block(layer int64) string { return fmt.Sprintf("blk.%d.", layer) }
