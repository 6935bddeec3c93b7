package host

import (
	"fmt"

	"github.com/les-project/les/cgo/llama"
)

// Counts are what the metadata of a model say about its experts and widths.
type Counts struct {
	Arch        string
	Blocks      int // NextN blocks included
	NextN       int
	Experts     int // of a layer
	Used        int // of them, by a token
	Trained     int // tokens of the context that it was trained for, 0 where that is not said
	Embedding   int // width of the residual stream
	ExpertWidth int // rows of gate and up
}

// ReadCounts reads them from the only or the first part of a model.
func ReadCounts(first *llama.File) (Counts, error) {
	arch, ok := first.String("general.architecture")
	if !ok {
		return Counts{}, fmt.Errorf("%s: has no general.architecture; it is not a model", first.Path())
	}
	number := func(key string) int {
		value, _ := first.Int(arch + "." + key)
		return int(value)
	}
	c := Counts{
		Arch: arch, Blocks: number("block_count"), NextN: number("nextn_predict_layers"),
		Experts: number("expert_count"), Used: number("expert_used_count"),
		Trained: number("context_length"), Embedding: number("embedding_length"), ExpertWidth: max(number("expert_feed_forward_length"), number("feed_forward_length")/8),
	}
	if c.Experts < 0 || c.Used < 0 || c.Used > c.Experts || c.NextN > c.Blocks {
		return c, fmt.Errorf("%s: impossible counts: %d experts, %d used, %d blocks, %d NextN blocks",
			first.Path(), c.Experts, c.Used, c.Blocks, c.NextN)
	}
	return c, nil
}

// WorkBytes estimates the CPU backend's work buffer, which is largest in the MoE
// nodes: the activation of every pair of token and expert, as numbers and
// quantised with its sums, the same of the input, and the tables that group the
// pairs. A value takes four bytes as a number and, in MXFP4's products, which have
// most, 3.6 quantised with sums.
func (c Counts) WorkBytes(ubatch int) int64 {
	pairs := int64(ubatch) * int64(c.Used)
	return pairs*(int64(c.ExpertWidth)*8+8) + int64(ubatch)*int64(c.Embedding)*4 + 1<<20
}
