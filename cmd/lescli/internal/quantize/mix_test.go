package quantize

import (
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// Bytes go where they save most, and never beyond the room.
func TestMixSpendsWhereItSavesMost(t *testing.T) {
	item := func(block int, lost float64) mixItem {
		return mixItem{layer: LayerType{First: block, Last: block, Role: "down"}, options: []mixOption{
			{tensor: llama.Q2K, bytes: 100, lost: 4 * lost}, {tensor: llama.Q3K, bytes: 140, lost: lost}, {tensor: llama.Q4K, bytes: 180, lost: lost / 4},
		}}
	}
	m := &mix{items: []mixItem{item(0, 1), item(1, 10), item(2, 0.1)}}
	for _, c := range []struct {
		room int64
		want [3]llama.TensorType
	}{
		{300, [3]llama.TensorType{llama.Q2K, llama.Q2K, llama.Q2K}},
		{345, [3]llama.TensorType{llama.Q2K, llama.Q3K, llama.Q2K}},
		{380, [3]llama.TensorType{llama.Q2K, llama.Q4K, llama.Q2K}},
		{420, [3]llama.TensorType{llama.Q3K, llama.Q4K, llama.Q2K}},
		{1000, [3]llama.TensorType{llama.Q4K, llama.Q4K, llama.Q4K}},
	} {
		opts, err := m.choose(c.room)
		if err != nil {
			t.Fatal(err)
		}
		for i, layer := range opts.Layers {
			if layer.Type != c.want[i] {
				t.Errorf("room %d: block %d gets %v, want %v", c.room, i, layer.Type, c.want[i])
			}
		}
	}
	if _, err := m.choose(299); err == nil {
		t.Error("too little room is not refused")
	}
}
