package repack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/layout"
)

// Keys of a model in several files.
const (
	keySplitCount   = "split.count"
	keySplitTensors = "split.tensors.count"
)

// tensor is one tensor of a model and the part it is in.
type tensor struct {
	llama.TensorInfo
	part int
}

// Source is a model with the layout that everybody reads, in one file or in
// several. It belongs to one goroutine, except for ReadAt.
type Source struct {
	parts   []*llama.File
	files   []*os.File
	tensors []tensor // in the order of the files
}

// OpenSource opens all parts of a model and checks that they belong together.
func OpenSource(path string) (_ *Source, err error) {
	parts, err := llama.OpenParts(path)
	if err != nil {
		return nil, err
	}
	s := &Source{parts: parts}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for i, part := range parts {
		file, err := os.Open(part.Path())
		if err != nil {
			return nil, err
		}
		s.files = append(s.files, file)
		for _, info := range part.Tensors() {
			s.tensors = append(s.tensors, tensor{info, i})
		}
	}
	return s, s.check()
}

// Close closes the files.
func (s *Source) Close() {
	for _, file := range s.files {
		file.Close() // it was only read
	}
	llama.CloseParts(s.parts)
}

// check refuses a model that is rewritten already, and parts that are not of
// one model as far as their metadata tell.
func (s *Source) check() error {
	first := s.parts[0]
	if _, ok := first.String("general.architecture"); !ok {
		return fmt.Errorf("%s: has no general.architecture; it is not a model", first.Path())
	}
	for _, part := range s.parts {
		for _, key := range part.Keys() {
			if key == layout.KeyVersion {
				return fmt.Errorf("%s: has the contiguous layout already", part.Path())
			}
			if strings.HasPrefix(key, layout.KeyPrefix) {
				return fmt.Errorf("%s: key %s would be lost: names that begin with %s are those of the layout", part.Path(), key, layout.KeyPrefix)
			}
		}
		if part.Alignment() != first.Alignment() && len(part.Tensors()) > 0 {
			return fmt.Errorf("%s: %s is %d, in %s it is %d", part.Path(), llama.KeyAlignment, part.Alignment(), first.Path(), first.Alignment())
		}
	}
	seen := map[string]int{}
	for _, tensor := range s.tensors {
		if part, twice := seen[tensor.Name]; twice {
			return fmt.Errorf("%s: tensor %s is in %s too; they are not parts of one model",
				s.parts[tensor.part].Path(), tensor.Name, s.parts[part].Path())
		}
		seen[tensor.Name] = tensor.part
	}
	want, ok := first.Int(keySplitTensors)
	if ok && len(s.parts) > 1 && int(want) != len(s.tensors) {
		return fmt.Errorf("%s: its parts should have %d tensors, they have %d; they are not parts of one model", first.Path(), want, len(s.tensors))
	}
	return nil
}

// Meta is the metadata of the first part, which has that of the model.
func (s *Source) Meta() *llama.File { return s.parts[0] }

// Tensors lists the tensors of all parts.
func (s *Source) Tensors() []llama.TensorInfo {
	list := make([]llama.TensorInfo, len(s.tensors))
	for i, tensor := range s.tensors {
		list[i] = tensor.TensorInfo
	}
	return list
}

// ReadAt reads a stretch of the i-th tensor.
func (s *Source) ReadAt(i int, p []byte, off int64) error {
	tensor := s.tensors[i]
	file := s.files[tensor.part]
	if _, err := file.ReadAt(p, tensor.Off+off); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("%s: read %d bytes at offset %d: %w", file.Name(), len(p), tensor.Off+off, err)
	}
	return nil
}

// PathOf is the file that the i-th tensor is in.
func (s *Source) PathOf(i int) string { return s.parts[s.tensors[i].part].Path() }

// Paths are the files of all parts.
func (s *Source) Paths() []string {
	var paths []string
	for _, part := range s.parts {
		paths = append(paths, part.Path())
	}
	return paths
}

// bytes is the size of all tensors.
func (s *Source) bytes() int64 {
	sum := int64(0)
	for _, tensor := range s.tensors {
		sum += tensor.Bytes
	}
	return sum
}

// describe lists the tensors for package layout.
func (s *Source) describe() []layout.Tensor {
	var list []layout.Tensor
	for _, tensor := range s.tensors {
		list = append(list, Describe(tensor.TensorInfo, 0))
	}
	return list
}

// Describe is a tensor as package layout wants it; dataOff is where the tensor
// data of its file start.
func Describe(info llama.TensorInfo, dataOff int64) layout.Tensor {
	t := layout.Tensor{Name: info.Name, Bytes: info.Bytes, Off: info.Off - dataOff}
	if info.Shape[3] == 1 {
		t.Slices = info.Shape[2]
	}
	return t
}

// copyKeys copies the metadata that the model has in one file: parts are merged
// as llama-gguf-split does, which leaves a count of 0 behind.
func (s *Source) copyKeys(w *llama.Writer, keep func(key string) bool) error {
	if len(s.parts) == 1 {
		w.CopyKeys(s.parts[0], keep)
		return nil
	}
	w.CopyKeys(s.parts[0], func(key string) bool { return key != keySplitCount && keep(key) })
	return w.SetUint16(keySplitCount, 0)
}

// keys lists the keys in the order in which copyKeys writes them.
func (s *Source) keys() []string {
	keys := s.parts[0].Keys()
	if len(s.parts) > 1 {
		keys = append(slices.DeleteFunc(keys, func(key string) bool { return key == keySplitCount }), keySplitCount)
	}
	return keys
}

// original describes the model as one file. Its header is that of the file
// itself, or what ggml writes for parts that are merged.
func (s *Source) original() (*original, error) {
	o := &original{alignment: s.parts[0].Alignment(), alignmentKey: slices.Index(s.keys(), llama.KeyAlignment)}
	written, err := s.writtenHeader()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.parts[0].Path(), err)
	}
	for _, tensor := range s.tensors {
		o.tensors = append(o.tensors, stretches{file: s.files[tensor.part], off: tensor.Off, each: tensor.Bytes, n: 1})
	}
	if len(s.parts) > 1 {
		o.header = written
		o.bytes = o.paddedBytes()
		return o, nil
	}
	o.header = make([]byte, s.parts[0].DataOff())
	if _, err := s.files[0].ReadAt(o.header, 0); err != nil {
		return nil, err
	}
	o.keepHeader = !bytes.Equal(o.header, written)
	info, err := s.files[0].Stat()
	if err != nil {
		return nil, err
	}
	o.bytes = info.Size()
	return o, o.readGaps(s.files[0])
}

// writtenHeader is what ggml writes before the tensor data.
func (s *Source) writtenHeader() ([]byte, error) {
	w, err := llama.NewAlignedWriter(len(s.tensors), s.parts[0].Alignment())
	if err != nil {
		return nil, err
	}
	defer w.Close()
	err = s.copyKeys(w, func(string) bool { return true })
	for _, tensor := range s.tensors {
		err = errors.Join(err, w.AddTensor(tensor.Name, tensor.Type, tensor.Shape[:]...))
	}
	if err != nil {
		return nil, err
	}
	return w.Meta(), nil
}
