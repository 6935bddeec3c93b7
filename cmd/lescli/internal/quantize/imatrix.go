package quantize

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cgo/measure"
)

// Names in a file of importance data, as llama-imatrix writes it.
const (
	sumsSuffix   = ".in_sum2"
	countsSuffix = ".counts"

	keyDatasets   = "imatrix.datasets"
	keyChunks     = "imatrix.chunk_count"
	keyType       = "general.type"
	typeOfImatrix = "imatrix"
)

// Imatrix is what a text told about the inputs of each matrix: the mean square
// of every column.
type Imatrix struct {
	Path     string
	Model    string // what the model is called that they are of, empty where that was not noted
	Datasets []string
	Chunks   int64
	entries  map[string]*Importance
}

// Importance is that of one tensor. Each of its matrices has a row of its own.
type Importance struct {
	Columns int64     // of a row
	Counts  []int64   // of inputs seen, one for each expert; one in all for dense tensors
	Means   []float32 // 1 for an expert that was never seen
}

// Unseen counts the experts without data.
func (i *Importance) Unseen() (n int) {
	for _, count := range i.Counts {
		if count == 0 {
			n++
		}
	}
	return n
}

// Matrix is the importance of the columns of one matrix.
func (i *Importance) Matrix(id int64) []float32 {
	return i.Means[id*i.Columns : (id+1)*i.Columns]
}

// ReadImatrix reads a file that `lescli imatrix` or llama-imatrix has written.
func ReadImatrix(path string) (*Imatrix, error) {
	meta, err := llama.OpenFile(path)
	if errors.Is(err, llama.ErrNotGGUF) {
		err = fmt.Errorf("%w; importance data are read in their GGUF form only: llama-imatrix --in-file OLD -o NEW.gguf converts", err)
	}
	if err != nil {
		return nil, err
	}
	defer meta.Close()
	if kind, _ := meta.String(keyType); kind != typeOfImatrix {
		return nil, fmt.Errorf("%s: is a GGUF file, but holds no importance data (%s is %q)", path, keyType, kind)
	}
	m := &Imatrix{Path: path, entries: map[string]*Importance{}}
	var ok bool
	if m.Datasets, ok = meta.Strings(keyDatasets); !ok {
		return nil, fmt.Errorf("%s: %s is missing", path, keyDatasets)
	}
	if m.Chunks, ok = meta.Int(keyChunks); !ok {
		return nil, fmt.Errorf("%s: %s is missing", path, keyChunks)
	}
	m.Model, _ = meta.String(measure.ModelKey)
	if err := m.readEntries(meta); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func (m *Imatrix) readEntries(meta *llama.File) error {
	file, err := os.Open(meta.Path())
	if err != nil {
		return err
	}
	defer file.Close()
	counts := map[string]llama.TensorInfo{}
	for _, tensor := range meta.Tensors() {
		if name, ok := strings.CutSuffix(tensor.Name, countsSuffix); ok {
			counts[name] = tensor
		}
	}
	for _, tensor := range meta.Tensors() {
		name, ok := strings.CutSuffix(tensor.Name, sumsSuffix)
		if !ok {
			continue
		}
		count, ok := counts[name]
		if !ok {
			return fmt.Errorf("tensor %s has no %s%s beside it", tensor.Name, name, countsSuffix)
		}
		if m.entries[name], err = readImportance(file, tensor, count); err != nil {
			return err
		}
	}
	if len(m.entries) == 0 {
		return errors.New("has no data")
	}
	return nil
}

// readImportance divides the sums of each expert by how often it was seen, as
// llama-quantize does.
func readImportance(file io.ReaderAt, sums, counts llama.TensorInfo) (*Importance, error) {
	means, err := readFloats(file, sums)
	if err != nil {
		return nil, err
	}
	seen, err := readFloats(file, counts)
	if err != nil {
		return nil, err
	}
	if len(means)%len(seen) != 0 {
		return nil, fmt.Errorf("tensor %s: %d sums do not divide into %d counts", sums.Name, len(means), len(seen))
	}
	e := &Importance{Columns: int64(len(means) / len(seen)), Means: means}
	for id, value := range seen {
		if value > countMax {
			return nil, fmt.Errorf("tensor %s: value %d is %v, too large for a count", counts.Name, id, value)
		}
		count := int64(math.RoundToEven(float64(value)))
		e.Counts = append(e.Counts, count)
		row := e.Matrix(int64(id))
		for i := range row {
			if count > 0 {
				row[i] /= float32(count)
			} else {
				row[i] = 1
			}
		}
	}
	return e, nil
}

// What a sum and a count can be at most. No text makes either; a larger sum, or a
// negative one, ends in an assertion in ggml's quantisers, which add up products
// of them in floats.
const (
	sumMax   = 1e30
	countMax = 1 << 53
)

// readFloats reads a tensor of sums or counts and refuses what can be neither.
func readFloats(file io.ReaderAt, tensor llama.TensorInfo) ([]float32, error) {
	if tensor.Type != llama.F32 || tensor.Bytes == 0 {
		return nil, fmt.Errorf("tensor %s is %v, want F32", tensor.Name, tensor.Type)
	}
	data := make([]byte, tensor.Bytes)
	if _, err := file.ReadAt(data, tensor.Off); err != nil {
		return nil, fmt.Errorf("tensor %s: %w", tensor.Name, err)
	}
	floats := make([]float32, len(data)/4)
	for i := range floats {
		floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		if value := floats[i]; !(value >= 0 && value <= sumMax) { // NaN is neither
			return nil, fmt.Errorf("tensor %s: value %d is %v, not a number from 0 to %v", tensor.Name, i, value, sumMax)
		}
	}
	return floats, nil
}

// Of is the importance data of a tensor, nil if there are none or all of its
// experts are unseen. Data of another shape are those of another model.
func (m *Imatrix) Of(tensor llama.TensorInfo) (*Importance, error) {
	if m == nil {
		return nil, nil
	}
	e := m.entries[tensor.Name]
	if e == nil {
		return nil, nil
	}
	if int64(len(e.Means)) != tensor.Shape[0]*tensor.Shape[2] || tensor.Shape[3] != 1 ||
		len(e.Counts) != 1 && int64(len(e.Counts)) != tensor.Shape[2] {
		return nil, fmt.Errorf("%s: %s has %d columns for %d matrices, in the model it has %d of %d each; it was made for another model",
			m.Path, tensor.Name, len(e.Means), len(e.Counts), tensor.Shape[2], tensor.Shape[0])
	}
	if e.Unseen() == len(e.Counts) {
		return nil, nil
	}
	return &Importance{Columns: tensor.Shape[0], Counts: e.Counts, Means: e.Means}, nil
}

// Names lists the tensors with data, in order.
func (m *Imatrix) Names() []string { return slices.Sorted(maps.Keys(m.entries)) }

// Seen are the counts of each expert of a tensor, nil without data.
func (m *Imatrix) Seen(name string) []int64 {
	if e := m.entries[name]; e != nil {
		return e.Counts
	}
	return nil
}

// keys says in the metadata of a model what it was quantised with, under
// llama-quantize's names.
func (m *Imatrix) keys(w *llama.Writer) error {
	dataset := ""
	if len(m.Datasets) > 0 {
		dataset = m.Datasets[0]
	}
	err := w.SetString("quantize.imatrix.file", filepath.Base(m.Path))
	if dataset != "" {
		err = errors.Join(err, w.SetString("quantize.imatrix.dataset", filepath.Base(dataset)))
	}
	err = errors.Join(err, w.SetUint32("quantize.imatrix.entries_count", uint32(len(m.entries))))
	if m.Chunks > 0 {
		err = errors.Join(err, w.SetUint32("quantize.imatrix.chunks_count", uint32(m.Chunks)))
	}
	return err
}
