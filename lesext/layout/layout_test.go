package layout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/layout"
)

// model has dense tensors between the experts, which are in no good order.
func model() []layout.Tensor {
	return []layout.Tensor{
		{Name: "token_embd.weight", Bytes: 5000, Slices: 1},
		{Name: "blk.1.ffn_down_exps.weight", Bytes: 8 * 3000, Slices: 8},
		{Name: "blk.1.ffn_down_exps.bias", Bytes: 800, Slices: 1},
		{Name: "blk.0.ffn_up_exps.weight", Bytes: 4 * 2000, Slices: 4},
		{Name: "blk.1.ffn_gate_up_exps.weight", Bytes: 8 * 6001, Slices: 8},
		{Name: "blk.0.ffn_gate_exps.weight", Bytes: 4 * 2000, Slices: 4},
		{Name: "blk.0.ffn_norm.weight", Bytes: 64, Slices: 1},
		{Name: "blk.0.ffn_down_exps.weight", Bytes: 4 * 192, Slices: 4},
		{Name: "blk.0.ffn_up_chexps.weight", Bytes: 2 * 4096, Slices: 2},
		{Name: "blk.0.ffn_down_chexps.weight", Bytes: 2 * 4096, Slices: 2},
	}
}

func mustMake(t *testing.T, tensors []layout.Tensor, keepNames bool) *layout.Layout {
	t.Helper()
	l, err := layout.Make(tensors, keepNames)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestExpertsOfALayerAreExtentsSideBySide(t *testing.T) {
	l := mustMake(t, model(), false)
	var got []string
	for _, layer := range l.Layers {
		text := fmt.Sprintf("%d %s %d of %d:", layer.Block, layer.Kind, layer.Experts, layer.Stride)
		for _, part := range layer.Parts {
			text += fmt.Sprintf(" %d@%d+%d", part.Tensor, part.Off, part.Bytes)
		}
		got = append(got, text)
		if layer.Off%expert.Align != 0 || layer.Stride%expert.Align != 0 {
			t.Errorf("%s: region at %d is not aligned", text, layer.Off)
		}
	}
	want := []string{ // 6001 is followed by the next multiple of 32
		"0 exps 4 of 8192: 5@0+2000 3@2016+2000 7@4032+192", "0 chexps 2 of 8192: 8@0+4096 9@4096+4096",
		"1 exps 8 of 12288: 4@0+6001 1@6016+3000",
	}
	if !slices.Equal(got, want) {
		t.Errorf("layers are %q, want %q", got, want)
	}
}

// A GGUF reader wants each tensor at the end of the one before, rounded up.
func TestPlacesAreWhereAReaderOfGGUFExpectsThem(t *testing.T) {
	l := mustMake(t, model(), false)
	off := int64(0)
	seen := map[int]bool{}
	for _, place := range l.Places {
		if place.Off != off {
			t.Errorf("%s is at %d, want %d", place.Name, place.Off, off)
		}
		off += (place.Bytes + expert.Align - 1) / expert.Align * expert.Align
		if place.Tensor >= 0 {
			seen[place.Tensor] = true
			of := place.Layer >= 0
			if name := model()[place.Tensor].Name; of != strings.HasSuffix(place.Name, layout.Suffix) || strings.TrimSuffix(place.Name, layout.Suffix) != name {
				t.Errorf("%s is called %s", name, place.Name)
			}
		}
	}
	if len(seen) != len(model()) {
		t.Errorf("%d of %d tensors have a place", len(seen), len(model()))
	}
	for i, layer := range l.Layers {
		end := off
		for j, place := range l.Places {
			if place.Layer > i && place.Tensor == l.Layers[place.Layer].Parts[0].Tensor {
				end = l.Places[j].Off
				break
			}
		}
		if layer.Off+layer.Bytes() > end {
			t.Errorf("the extents of block %d end at %d, their region at %d", layer.Block, layer.Off+layer.Bytes(), end)
		}
	}
}

func TestThereIsAlwaysAFiller(t *testing.T) {
	tensors := []layout.Tensor{
		{Name: "blk.0.ffn_up_exps.weight", Bytes: 2 * 4096, Slices: 2}, {Name: "blk.0.ffn_down_exps.weight", Bytes: 2 * 4096, Slices: 2},
	}
	l := mustMake(t, tensors, true)
	last := l.Places[len(l.Places)-1]
	if last.Tensor != -1 || last.Bytes != expert.Align || last.Name != "blk.0.ffn_exps.pad" {
		t.Errorf("the last place is %+v", last)
	}
	if l.Places[0].Name != tensors[0].Name {
		t.Errorf("%s is called %s", tensors[0].Name, l.Places[0].Name)
	}
}

func TestWhatCannotBeLaidOutIsNamed(t *testing.T) {
	const up, down = "blk.0.ffn_up_exps.weight", "blk.0.ffn_down_exps.weight"
	cases := map[string]struct {
		tensors []layout.Tensor
		want    string
	}{
		"no experts":      {[]layout.Tensor{{Name: "blk.0.ffn_up.weight", Bytes: 64, Slices: 1}}, "no routed experts"},
		"one expert only": {[]layout.Tensor{{Name: up, Bytes: 64, Slices: 1}}, "no routed experts"},
		"counts differ":   {[]layout.Tensor{{Name: up, Bytes: 64, Slices: 2}, {Name: down, Bytes: 64, Slices: 4}}, "tensor " + down + " has 4 experts, its layer has 2"},
		"odd size":        {[]layout.Tensor{{Name: up, Bytes: 65, Slices: 2}}, "tensor " + up + ": 65 bytes do not divide into 2 experts"},
		"twice":           {[]layout.Tensor{{Name: up, Bytes: 64, Slices: 2}, {Name: up, Bytes: 64, Slices: 2}}, "tensor " + up + " is there twice"},
		"too many":        {[]layout.Tensor{{Name: up, Bytes: 1 << 17, Slices: 1 << 17}}, "tensor " + up + " has 131072 experts"},
		"four roles": {[]layout.Tensor{{Name: up, Bytes: 64, Slices: 2}, {Name: down, Bytes: 64, Slices: 2},
			{Name: "blk.0.ffn_gate_exps.weight", Bytes: 64, Slices: 2}, {Name: "blk.0.ffn_gate_up_exps.weight", Bytes: 64, Slices: 2}}, "more than 3 expert tensors"},
	}
	for name, c := range cases {
		_, err := layout.Make(c.tensors, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v, want %q", name, err, c.want)
		}
	}
	if _, err := layout.Make(nil, false); !errors.Is(err, layout.ErrNoExperts) {
		t.Errorf("error is %v", err)
	}
}

func TestNamesOfExpertsAreTakenApart(t *testing.T) {
	cases := map[string]layout.Name{
		"blk.7.ffn_gate_up_exps.weight":               {Block: 7, Role: "gate_up", Kind: "exps"},
		"blk.12.ffn_down_chexps.weight":               {Block: 12, Role: "down", Kind: "chexps"},
		"blk.0.ffn_up_exps.bias":                      {},
		"blk.0.ffn_up_exps.scale":                     {},
		"blk.0.ffn_up_shexp.weight":                   {},
		"blk.0.ffn_foo_exps.weight":                   {},
		"blk.0.ffn_up.weight":                         {},
		"blk.-1.ffn_up_exps.weight":                   {},
		"blk.01.ffn_up_exps.weight":                   {},
		"blk.x.ffn_up_exps.weight":                    {},
		"blk.0.ffn_up_exps.weight.les":                {},
		"v.blk.0.ffn_up_exps.weight":                  {},
		"blk.0.attn.ffn_up_exps.weight":               {},
		"blk.99999999999999999999.ffn_up_exps.weight": {},
	}
	for name, want := range cases {
		got, ok := layout.ParseName(name)
		if ok != (want.Kind != "") || ok && got != want {
			t.Errorf("%s is %+v, %v", name, got, ok)
		}
	}
}

func TestLongestNameHasRoomForTheSuffix(t *testing.T) {
	const longest = "blk.9223372036854775807.ffn_gate_up_chexps.weight"
	const ggmlNameMax = 63
	if _, ok := layout.ParseName(longest); !ok || len(longest+layout.Suffix) > ggmlNameMax {
		t.Errorf("%s%s has %d bytes", longest, layout.Suffix, len(longest+layout.Suffix))
	}
}
