package llama

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAlignedWriterAligns(t *testing.T) {
	w, err := NewAlignedWriter(2, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = errors.Join(w.SetUint32(KeyAlignment, 4096), w.SetString("general.architecture", "test"),
		w.AddTensor("first.weight", F32, 5), w.AddTensor("second.weight", F32, 5))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "aligned.gguf")
	if err := os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if off := file.Tensors()[1].Off; off%4096 != 0 || off != file.DataOff()+4096 || file.Alignment() != 4096 {
		t.Errorf("the second tensor is at %d, data start at %d", off, file.DataOff())
	}
	if !slices.Equal(file.Keys(), []string{KeyAlignment, "general.architecture"}) {
		t.Errorf("keys are %v", file.Keys())
	}
}

func TestImpossibleAlignmentIsRefused(t *testing.T) {
	for _, alignment := range []int64{-1, 0, 3, 48, 2 * AlignmentMax} {
		if _, err := NewAlignedWriter(1, alignment); err == nil || !strings.Contains(err.Error(), KeyAlignment+" is ") {
			t.Errorf("%d: error is %v", alignment, err)
		}
	}
}

func TestArraysReadBack(t *testing.T) {
	w, err := NewWriter(1)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = errors.Join(w.SetUint16("u16", 65535), w.SetUint64("u64", 1<<63-1), w.SetUint32s("u32s", []uint32{1, 1<<32 - 1}),
		w.SetUint64s("u64s", []uint64{1, 1<<63 - 1}), w.SetBytes("bytes", []byte("\x00\xff")), w.SetStrings("words", []string{"a", ""}),
		w.SetBytes("none", nil), w.AddTensor("a.weight", F32, 1))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "arrays.gguf")
	if err := os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for key, want := range map[string][]int64{"u16": {65535}, "u64": {1<<63 - 1}, "u32s": {1, 1<<32 - 1}, "u64s": {1, 1<<63 - 1}} {
		if got, ok := file.Ints(key); !ok || !slices.Equal(got, want) {
			t.Errorf("%s is %v, %v", key, got, ok)
		}
	}
	if got, ok := file.Bytes("bytes"); !ok || !bytes.Equal(got, []byte("\x00\xff")) {
		t.Errorf("bytes are %v, %v", got, ok)
	}
	if got, ok := file.Strings("words"); !ok || !slices.Equal(got, []string{"a", ""}) {
		t.Errorf("words are %q, %v", got, ok)
	}
	if got, ok := file.Bytes("none"); !ok || len(got) != 0 {
		t.Errorf("nothing is %v, %v", got, ok)
	}
	for _, key := range []string{"u16", "u32s", "bytes", "missing"} {
		if got, ok := file.Strings(key); ok {
			t.Errorf("%s is %q", key, got)
		}
	}
}

// What ggml writes of the keys it has read is what was there.
func TestCopiedKeysKeepTheirOrderAndBytes(t *testing.T) {
	path := writeFile(t, "source.gguf", map[string]uint32{"count": 7})
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	w, err := NewWriter(2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	half := func(first bool) func(string) bool {
		return func(key string) bool { return (slices.Index(file.Keys(), key) < 3) == first }
	}
	w.CopyKeys(file, half(true))
	w.CopyKeys(file, half(false))
	for _, tensor := range file.Tensors() {
		if err := w.AddTensor(tensor.Name, tensor.Type, tensor.Shape[:]...); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(w.Meta(), data[:file.DataOff()]) {
		t.Errorf("metadata differ: %v", err)
	}
	if n := binary.LittleEndian.Uint64(data[16:]); int(n) != len(file.Keys()) {
		t.Errorf("%d keys, the file has %d", len(file.Keys()), n)
	}
}
