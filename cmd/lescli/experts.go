package main

import (
	"fmt"
	"strings"

	"github.com/les-project/les/cgo/llama"
)

// expertLayer is what one layer has of routed experts.
type expertLayer struct {
	layer int
	bytes int64 // all experts of the layer
}

// modelFile is what the metadata of a model says about its experts.
type modelFile struct {
	arch       string
	blocks     int // NextN blocks included
	nextn      int
	experts    int
	used       int
	layers     []expertLayer // layers with routed experts, without NextN blocks
	nextnBytes int64         // routed experts of NextN blocks
	tensors    int
	totalBytes int64
	parts      int
	unknown    []string // tensors shaped like experts under unknown names
}

// readModelFile reads the metadata of all parts of a model.
func readModelFile(path string) (*modelFile, error) {
	parts, err := llama.OpenParts(path)
	if err != nil {
		return nil, err
	}
	defer llama.CloseParts(parts)
	first := parts[0]
	arch, ok := first.String("general.architecture")
	if !ok {
		return nil, fmt.Errorf("%s: has no general.architecture; it is not a model", path)
	}
	number := func(key string) int {
		value, _ := first.Int(arch + "." + key)
		return int(value)
	}
	m := &modelFile{
		arch: arch, blocks: number("block_count"), nextn: number("nextn_predict_layers"),
		experts: number("expert_count"), used: number("expert_used_count"), parts: len(parts),
	}
	if m.experts < 0 || m.used < 0 || m.used > m.experts || m.nextn > m.blocks {
		return nil, fmt.Errorf("%s: impossible counts: %d experts, %d used, %d blocks, %d NextN blocks",
			path, m.experts, m.used, m.blocks, m.nextn)
	}
	bytes := map[int]int64{}
	for _, part := range parts {
		for _, tensor := range part.Tensors() {
			m.add(tensor, bytes)
		}
	}
	m.collect(bytes)
	return m, nil
}

// add accounts for one tensor.
func (m *modelFile) add(tensor llama.TensorInfo, bytes map[int]int64) {
	m.tensors++
	m.totalBytes += tensor.Bytes
	layer, role, ok := blockTensor(tensor.Name)
	if !ok || m.experts == 0 || tensor.Shape[2] != int64(m.experts) || !strings.HasPrefix(role, "ffn_") {
		return
	}
	switch role {
	case "ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight", "ffn_gate_up_exps.weight":
		bytes[layer] += tensor.Bytes
	default:
		m.unknown = append(m.unknown, tensor.Name)
	}
}

// collect puts the layers in order.
func (m *modelFile) collect(bytes map[int]int64) {
	for layer := range m.blocks {
		size, ok := bytes[layer]
		switch {
		case !ok:
		case layer >= m.blocks-m.nextn:
			m.nextnBytes += size
		default:
			m.layers = append(m.layers, expertLayer{layer, size})
		}
	}
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
		largest = max(largest, layer.bytes/int64(m.experts))
	}
	return largest
}

// routedBytes is the size of all routed experts, without NextN blocks.
func (m *modelFile) routedBytes() int64 {
	var sum int64
	for _, layer := range m.layers {
		sum += layer.bytes
	}
	return sum
}
