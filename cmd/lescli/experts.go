package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/les-project/les/cgo/host"
	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/repack"
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/trace"
)

// expertLayer is what one layer has of routed experts. A block with two kinds
// of experts counts as two layers.
type expertLayer struct {
	block     int
	kind      string // exps or chexps
	experts   int
	bytes     int64 // all experts of the layer
	slotBytes int64 // what one expert takes in a slot

	contiguous bool // slotBytes is that of an extent
}

// expertTensor is a tensor with one slice for each expert.
type expertTensor struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	part  int
	off   int64
}

// modelFile is what the metadata of a model says about its experts.
type modelFile struct {
	host.Counts
	layers     []expertLayer  // layers with routed experts, without NextN blocks
	nextnBytes int64          // routed experts of NextN blocks
	sliced     []expertTensor // all tensors with a slice for each expert, without NextN blocks
	tensors    int
	totalBytes int64
	paths      []string       // of its parts, in the order of the loader
	unknown    []expertTensor // shaped like experts under unknown names
	contiguous bool           // the file is repacked
	embeddings int64          // bytes of the token embeddings
	ownOutput  bool           // the output matrix is a tensor of its own
	template   string         // for chats, empty for none
	pre        string         // how the tokenizer takes texts apart
}

// readModelFile reads the metadata of all parts of a model.
func readModelFile(path string) (*modelFile, error) {
	parts, err := llama.OpenParts(path)
	if err != nil {
		return nil, err
	}
	defer llama.CloseParts(parts)
	first := parts[0]
	counts, err := host.ReadCounts(first)
	if err != nil {
		return nil, err
	}
	m := &modelFile{Counts: counts}
	m.template, _ = first.String("tokenizer.chat_template")
	m.pre, _ = first.String("tokenizer.ggml.pre")
	layers := map[layerKey]*expertLayer{}
	for i, part := range parts {
		m.paths = append(m.paths, part.Path())
		tensors, err := m.stockTensors(part, layers)
		if err != nil {
			return nil, err
		}
		for _, tensor := range tensors {
			m.add(i, tensor, layers)
		}
	}
	m.collect(layers)
	return m, nil
}

// stockTensors lists the tensors of a file under the names that the model knows
// them by. Experts of a repacked file are where the first one is, fillers are
// left out, and their layers have slots of one extent.
func (m *modelFile) stockTensors(part *llama.File, layers map[layerKey]*expertLayer) ([]llama.TensorInfo, error) {
	stored, err := repack.Layout(part)
	if err != nil || stored == nil {
		return part.Tensors(), err
	}
	m.contiguous = true
	dataOff := part.DataOff()
	tensors := slices.Clone(part.Tensors())
	for _, layer := range stored.Layers {
		layers[layerKey{layer.Block, layer.Kind}] = &expertLayer{
			block: layer.Block, kind: layer.Kind, experts: layer.Experts, slotBytes: layer.Stride, contiguous: true,
		}
		for _, matrix := range layer.Parts {
			tensors[matrix.Tensor].Off = dataOff + layer.Off + matrix.Off
		}
	}
	kept := tensors[:0]
	for i, tensor := range tensors {
		if tensor.Name = stored.Names[i]; tensor.Name != "" {
			kept = append(kept, tensor)
		}
	}
	return kept, nil
}

// layoutName says how the experts lie in the file.
func (m *modelFile) layoutName() string {
	if m.contiguous {
		return "contiguous"
	}
	return "stock"
}

// layerKey tells expert layers apart.
type layerKey struct {
	block int
	kind  string
}

// add accounts for one tensor.
func (m *modelFile) add(part int, tensor llama.TensorInfo, layers map[layerKey]*expertLayer) {
	m.tensors++
	m.totalBytes += tensor.Bytes
	switch tensor.Name {
	case "token_embd.weight":
		m.embeddings = tensor.Bytes
	case "output.weight":
		m.ownOutput = true
	}
	block, name, ok := blockTensor(tensor.Name)
	if !ok || m.Experts == 0 || tensor.Shape[2] < 2 || !strings.HasPrefix(name, "ffn_") {
		return
	}
	slice := expertTensor{Name: tensor.Name, Bytes: tensor.Bytes, part: part, off: tensor.Off}
	parsed, known := layout.ParseName(tensor.Name)
	if !known {
		m.unknown = append(m.unknown, slice)
	} else {
		m.addTo(layers, layerKey{block, parsed.Kind}, tensor)
	}
	if block < m.Blocks-m.NextN {
		m.sliced = append(m.sliced, slice)
	}
}

// addTo adds a tensor to its layer.
func (m *modelFile) addTo(layers map[layerKey]*expertLayer, key layerKey, tensor llama.TensorInfo) {
	layer := layers[key]
	if layer == nil {
		layer = &expertLayer{block: key.block, kind: key.kind, experts: int(tensor.Shape[2])}
		layers[key] = layer
	}
	each := tensor.Bytes / tensor.Shape[2]
	layer.bytes += tensor.Bytes
	if layer.contiguous {
		return
	}
	layer.slotBytes += les.SlotSpanBytes(expert.Span{Off: tensor.Off, Stride: each, Bytes: each})
}

// collect puts the layers in order.
func (m *modelFile) collect(layers map[layerKey]*expertLayer) {
	for block := range m.Blocks {
		for _, kind := range layout.Kinds {
			layer, ok := layers[layerKey{block, kind}]
			switch {
			case !ok:
			case block >= m.Blocks-m.NextN:
				m.nextnBytes += layer.bytes
			default:
				m.layers = append(m.layers, *layer)
			}
		}
	}
}

// shape is what the plan needs to know.
func (m *modelFile) shape() plan.Shape {
	s := plan.Shape{Layers: len(m.layers)}
	for _, layer := range m.layers {
		s.SlotBytes = max(s.SlotBytes, layer.slotBytes)
		s.Experts = max(s.Experts, layer.experts)
		s.Used = max(s.Used, min(m.Used, layer.experts))
		s.All += layer.experts
	}
	return s
}

// blockTensor takes the name of a layer's tensor apart.
func blockTensor(name string) (layer int, role string, ok bool) {
	n, err := fmt.Sscanf(name, "blk.%d.%s", &layer, &role)
	return layer, role, err == nil && n == 2
}

// expertBytes is the size of the largest expert.
func (m *modelFile) expertBytes() int64 {
	var largest int64
	for _, layer := range m.layers {
		largest = max(largest, layer.bytes/int64(layer.experts))
	}
	return largest
}

// routesBuffer has room for what one step routes and guesses, also when every
// layer uses all of its experts.
func (m *modelFile) routesBuffer() *trace.Routes {
	shape := m.shape()
	const kinds = 2 // routed and guessed
	return trace.NewRoutes(kinds*shape.Layers, kinds*shape.All)
}

// rowsBytes is the size of the token embeddings where a streamed model leaves
// them in the file: they are not the output matrix too.
func (m *modelFile) rowsBytes() int64 {
	if len(m.layers) == 0 || !m.ownOutput {
		return 0
	}
	return m.embeddings
}

// routedBytes is the size of all routed experts, without NextN blocks.
func (m *modelFile) routedBytes() int64 {
	var sum int64
	for _, layer := range m.layers {
		sum += layer.bytes
	}
	return sum
}
