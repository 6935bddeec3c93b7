package quantize

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// writeImatrix writes data of a tensor with 3 experts of 32 columns; sums are 6
// for each column.
func writeImatrix(t *testing.T, counts [3]float32, sum float32) string {
	t.Helper()
	w, err := llama.NewWriter(2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = errors.Join(
		w.SetString(keyType, typeOfImatrix), w.SetStrings(keyDatasets, []string{"text"}),
		w.SetUint32(keyChunks, 1),
		w.AddTensor("blk.2.ffn_up_exps.weight.in_sum2", llama.F32, 32, 3),
		w.AddTensor("blk.2.ffn_up_exps.weight.counts", llama.F32, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	data := w.Meta()
	for range 3 * 32 {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(sum))
	}
	for _, count := range counts {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(count))
	}
	path := filepath.Join(t.TempDir(), "imatrix.gguf")
	if err := os.WriteFile(path, append(data, make([]byte, 64)...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

var upOfBlock2 = llama.TensorInfo{Name: "blk.2.ffn_up_exps.weight", Shape: [4]int64{32, 8, 3, 1}}

func TestUnseenExpertGetsEvenWeightsAlone(t *testing.T) {
	m, err := ReadImatrix(writeImatrix(t, [3]float32{2, 0, 3}, 6))
	if err != nil {
		t.Fatal(err)
	}
	e, err := m.Of(upOfBlock2)
	if err != nil || e == nil {
		t.Fatal(e, err)
	}
	if e.Matrix(0)[5] != 3 || e.Matrix(1)[5] != 1 || e.Matrix(2)[31] != 2 || e.Unseen() != 1 {
		t.Errorf("weights are %v, %v, %v, and %d unseen", e.Matrix(0)[5], e.Matrix(1)[5], e.Matrix(2)[31], e.Unseen())
	}
}

func TestLayerThatWasNeverSeenHasNoData(t *testing.T) {
	m, err := ReadImatrix(writeImatrix(t, [3]float32{}, 0))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := m.Of(upOfBlock2); e != nil || err != nil {
		t.Errorf("%v, %v", e, err)
	}
	if e, err := m.Of(llama.TensorInfo{Name: "blk.3.ffn_up_exps.weight", Shape: upOfBlock2.Shape}); e != nil || err != nil {
		t.Errorf("absent layer: %v, %v", e, err)
	}
}

func TestImatrixThatCannotBeIsRefused(t *testing.T) {
	for _, sum := range []float64{math.NaN(), math.Inf(1), -6, 1e38} {
		const want = "blk.2.ffn_up_exps.weight.in_sum2: value 0 is "
		if _, err := ReadImatrix(writeImatrix(t, [3]float32{1, 1, 1}, float32(sum))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a sum of %v: %v", sum, err)
		}
	}
	for _, count := range []float32{-1, 1e17, 1e30, 1e38} {
		const want = "blk.2.ffn_up_exps.weight.counts: value 1 is "
		if _, err := ReadImatrix(writeImatrix(t, [3]float32{1, count, 1}, 1)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a count of %v: %v", count, err)
		}
	}
	m, err := ReadImatrix(writeImatrix(t, [3]float32{1, 1, 1}, 1))
	if err != nil {
		t.Fatal(err)
	}
	other := upOfBlock2
	other.Shape[2] = 16
	if _, err := m.Of(other); err == nil || !strings.Contains(err.Error(), "another model") {
		t.Errorf("16 experts: %v", err)
	}
	old := filepath.Join(t.TempDir(), "imatrix.dat")
	if err := os.WriteFile(old, []byte("\x01\x00\x00\x00 an old file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadImatrix(old); err == nil || !strings.Contains(err.Error(), "converts") {
		t.Errorf("old file: %v", err)
	}
}
