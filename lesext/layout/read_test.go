package layout_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/layout"
)

// metadata stands for those of a file.
type metadata struct {
	ints  map[string][]int64
	texts map[string][]string
}

func (m metadata) Ints(key string) ([]int64, bool) {
	v, ok := m.ints[key]
	return v, ok
}

func (m metadata) Strings(key string) ([]string, bool) {
	v, ok := m.texts[key]
	return v, ok
}

// written is what a writer makes of a layout.
func written(l *layout.Layout, original []layout.Tensor) (metadata, []layout.Tensor) {
	m := metadata{map[string][]int64{layout.KeyVersion: {layout.Version}}, map[string][]string{}}
	for _, layer := range l.Layers {
		for _, part := range layer.Parts {
			m.texts[layout.KeyTensors] = append(m.texts[layout.KeyTensors], original[part.Tensor].Name)
			m.ints[layout.KeyOffsets] = append(m.ints[layout.KeyOffsets], layer.Off+part.Off)
			m.ints[layout.KeyStrides] = append(m.ints[layout.KeyStrides], layer.Stride)
		}
		for range layer.Experts {
			m.ints[layout.KeyChecksums] = append(m.ints[layout.KeyChecksums], int64(len(m.ints[layout.KeyChecksums])))
		}
	}
	order := make([]int64, len(original))
	var tensors []layout.Tensor
	for i, place := range l.Places {
		tensor := layout.Tensor{Name: place.Name, Bytes: place.Bytes, Slices: 1, Off: place.Off}
		if place.Tensor < 0 {
			m.texts[layout.KeyFillers] = append(m.texts[layout.KeyFillers], place.Name)
		} else {
			order[place.Tensor] = int64(i)
			tensor.Slices = original[place.Tensor].Slices
			if place.Layer < 0 {
				m.ints[layout.KeyOthers] = append(m.ints[layout.KeyOthers], 7)
			}
		}
		tensors = append(tensors, tensor)
	}
	m.ints[layout.KeyOrder] = order
	return m, tensors
}

func TestWhatWasWrittenIsReadBack(t *testing.T) {
	for _, keep := range []bool{false, true} {
		l := mustMake(t, model(), keep)
		m, tensors := written(l, model())
		s, err := layout.Read(m, tensors)
		if err != nil {
			t.Fatal(err)
		}
		for i, tensor := range model() {
			if s.Names[s.Order[i]] != tensor.Name {
				t.Errorf("tensor %d is %s, want %s", i, s.Names[s.Order[i]], tensor.Name)
			}
		}
		for i := range s.Layers {
			got, want := s.Layers[i], l.Layers[i]
			for j := range got.Parts { // the file counts its own tensors
				got.Parts[j].Tensor = slices.Index(s.Order, got.Parts[j].Tensor)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("layer %d is %+v, want %+v", i, got, want)
			}
		}
		if len(s.Checksums) != 4+2+8 || s.Checksums[13] != 13 {
			t.Errorf("checksums are %v", s.Checksums)
		}
	}
}

func TestStockFilesHaveNoLayout(t *testing.T) {
	s, err := layout.Read(metadata{}, model())
	if s != nil || err != nil {
		t.Errorf("layout is %v, %v", s, err)
	}
}

func TestMetadataThatSayWhatCannotBeAreRefused(t *testing.T) {
	const up = "blk.0.ffn_up_exps.weight"
	cases := map[string]struct {
		change func(m metadata, tensors []layout.Tensor)
		want   string
	}{
		"newer":         {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyVersion] = []int64{2} }, "les.layout.version is [2], only 1 is known"},
		"no version":    {func(m metadata, _ []layout.Tensor) { delete(m.ints, layout.KeyVersion) }, "les.layout.version is missing"},
		"no names":      {func(m metadata, _ []layout.Tensor) { delete(m.texts, layout.KeyTensors) }, "les.layout.tensors is missing"},
		"no offsets":    {func(m metadata, _ []layout.Tensor) { delete(m.ints, layout.KeyOffsets) }, "les.layout.offsets is missing"},
		"fewer offsets": {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyOffsets] = m.ints[layout.KeyOffsets][1:] }, "7 names, 6 offsets"},
		"other offset":  {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyOffsets][1] += 32 }, "tensor " + up + ": offset"},
		"other stride":  {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyStrides][1] = 1 << 62 }, "tensor " + up + ": offset"},
		"names swapped": {func(m metadata, _ []layout.Tensor) { slices.Reverse(m.texts[layout.KeyTensors]) }, "is not where les.layout.tensors has it"},
		"name too many": {func(m metadata, _ []layout.Tensor) {
			m.texts[layout.KeyTensors] = append(m.texts[layout.KeyTensors], "x")
		}, "8 names"},
		"name not listed": {func(_ metadata, tensors []layout.Tensor) { tensors[0].Name += layout.Suffix }, "is not in les.layout.tensors"},
		"no filler":       {func(m metadata, _ []layout.Tensor) { m.texts[layout.KeyFillers] = nil }, "have no room for 4 experts of 8192 bytes"},
		"small filler": {func(_ metadata, tensors []layout.Tensor) {
			for i := range tensors {
				if strings.HasSuffix(tensors[i].Name, ".pad") {
					tensors[i].Bytes = 0
				}
			}
		}, "have no room for 4 experts of 8192 bytes"},
		"fewer checksums": {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyChecksums] = m.ints[layout.KeyChecksums][1:] }, "13 checksums of 14 experts"},
		"order too short": {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyOrder] = m.ints[layout.KeyOrder][1:] }, "les.original.tensors has 9 tensors"},
		"order repeats":   {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyOrder][0] = m.ints[layout.KeyOrder][1] }, "none or is there twice"},
		"order beyond":    {func(m metadata, _ []layout.Tensor) { m.ints[layout.KeyOrder][0] = 1 << 40 }, "tensor 1099511627776"},
	}
	for name, c := range cases {
		m, tensors := written(mustMake(t, model(), false), model())
		c.change(m, tensors)
		s, err := layout.Read(m, tensors)
		if err == nil || s != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: layout %v, error %v, want %q", name, s != nil, err, c.want)
		}
	}
}
