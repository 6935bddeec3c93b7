package layout

import (
	"slices"
	"strconv"
	"strings"
)

// Kinds are the endings of the names of routed experts, in the order in which
// a block's layers count. A block with two kinds has two layers.
var Kinds = []string{"exps", "chexps"}

// roles are the parts of the names before the ending, in order of use.
var roles = []string{"gate", "gate_up", "up", "down"}

// Name is the name of a tensor of routed experts, taken apart:
// blk.7.ffn_gate_up_exps.weight is block 7, role gate_up, kind exps.
type Name struct {
	Block      int
	Role, Kind string
}

// ParseName takes apart the name of a tensor of routed experts; ok is false
// for every other one, biases and scales of experts included.
func ParseName(name string) (parsed Name, ok bool) {
	rest, isBlock := strings.CutPrefix(name, "blk.")
	number, rest, _ := strings.Cut(rest, ".")
	stem, isWeight := strings.CutSuffix(rest, ".weight")
	stem, isForward := strings.CutPrefix(stem, "ffn_")
	at := strings.LastIndexByte(stem, '_')
	block, err := strconv.Atoi(number)
	if !isBlock || !isWeight || !isForward || at < 0 || err != nil || block < 0 || number != strconv.Itoa(block) {
		return Name{}, false
	}
	parsed = Name{Block: block, Role: stem[:at], Kind: stem[at+1:]}
	return parsed, slices.Contains(Kinds, parsed.Kind) && slices.Contains(roles, parsed.Role)
}

// compare orders names by layer, and by use within a layer.
func compare(a, b Name) int {
	if a.Block != b.Block {
		return a.Block - b.Block
	}
	if a.Kind != b.Kind {
		return slices.Index(Kinds, a.Kind) - slices.Index(Kinds, b.Kind)
	}
	return slices.Index(roles, a.Role) - slices.Index(roles, b.Role)
}
