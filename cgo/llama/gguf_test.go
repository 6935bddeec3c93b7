package llama

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	Init()
	os.Exit(m.Run())
}

// writeFile makes a small file with two tensors and returns its path.
func writeFile(t *testing.T, name string, keys map[string]uint32) string {
	t.Helper()
	w, err := NewWriter(2)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.SetString("general.architecture", "test"))
	check(w.SetString("text", "naïve 日本"))
	check(w.SetFloat32("float", 1.5))
	check(w.SetBool("truth", true))
	check(w.SetInt32s("ints", []int32{3, -1}))
	check(w.SetStrings("words", []string{"a", "", "ccc"}))
	for key, value := range keys {
		check(w.SetUint32(key, value))
	}
	check(w.AddTensor("first.weight", Q4K, 256, 3))
	check(w.AddTensor("second.weight", F32, 5))
	path := filepath.Join(t.TempDir(), name)
	check(os.WriteFile(path, append(w.Meta(), make([]byte, w.DataBytes())...), 0o600))
	return path
}

func TestWrittenFileReadsBack(t *testing.T) {
	file, err := OpenFile(writeFile(t, "файл é.gguf", map[string]uint32{"count": 7}))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if text, ok := file.String("text"); !ok || text != "naïve 日本" {
		t.Errorf("text is %q, %v", text, ok)
	}
	if n, ok := file.Int("count"); !ok || n != 7 {
		t.Errorf("count is %d, %v", n, ok)
	}
	if ints, ok := file.Ints("ints"); !ok || len(ints) != 2 || ints[1] != -1 {
		t.Errorf("ints are %v, %v", ints, ok)
	}
	if n, ok := file.ArrayLen("words"); !ok || n != 3 {
		t.Errorf("words has length %d, %v", n, ok)
	}
	for _, key := range []string{"missing", "text", "words", "float"} {
		if n, ok := file.Int(key); ok {
			t.Errorf("%s counts as the number %d", key, n)
		}
	}
	tensors := file.Tensors()
	if len(tensors) != 2 || tensors[0].Bytes != 3*144 || tensors[0].Shape != [4]int64{256, 3, 1, 1} || tensors[1].Type != F32 {
		t.Errorf("tensors are %+v", tensors)
	}
}

func TestWriterRefusesWhatWouldAbort(t *testing.T) {
	w, err := NewWriter(3)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for name, err := range map[string]error{
		"row not a multiple of the block": w.AddTensor("a", Q4K, 100),
		"no dimensions":                   w.AddTensor("b", F32),
		"zero dimension":                  w.AddTensor("c", F32, 4, 0),
		"name too long":                   w.AddTensor(strings.Repeat("n", 64), F32, 4),
		"NUL in a key":                    w.SetUint32("a\x00b", 1),
	} {
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestCutFileIsRefusedWithTensorAndSizes(t *testing.T) {
	whole, err := os.ReadFile(writeFile(t, "whole.gguf", nil))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		keep int
		want string
	}{
		"empty":             {0, "is empty"},
		"inside the header": {20, "cannot read"},
		"magic only":        {4, "cannot read"},
		"no data":           {len(whole) - 3*144 - 32, "is cut off: tensor first.weight"},
		"last byte":         {len(whole) - 13, "is cut off: tensor second.weight needs 20 bytes"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cut.gguf")
			if err := os.WriteFile(path, whole[:c.keep], 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenFile(path)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("error is %v, want %q and the path", err, c.want)
			}
		})
	}
}

// handMade is a file with one tensor of any dimensions, type and offset, which
// the writer would refuse to make.
func handMade(alignment uint32, dtype uint32, off uint64, dims ...uint64) []byte {
	var b bytes.Buffer
	put := func(values ...any) {
		for _, value := range values {
			if text, ok := value.(string); ok {
				binary.Write(&b, binary.LittleEndian, uint64(len(text)))
				b.WriteString(text)
				continue
			}
			binary.Write(&b, binary.LittleEndian, value)
		}
	}
	b.WriteString("GGUF")
	put(uint32(3), uint64(1), uint64(1))
	put("general.alignment", uint32(4), alignment)
	put("blk.0.ffn_up_exps.weight", uint32(len(dims)))
	for _, dim := range dims {
		put(dim)
	}
	put(dtype, off)
	b.Write(make([]byte, 4096))
	return b.Bytes()
}

func TestSizesThatWrapAreRefused(t *testing.T) {
	const f32, i8 = 0, 24
	cases := map[string][]byte{
		"elements wrap":       handMade(32, i8, 0, 1<<63-1, 2),
		"three factors wrap":  handMade(32, f32, 0, 4, 1<<30-1, 1<<30+1),
		"bytes wrap":          handMade(32, f32, 0, 1<<62),
		"experts wrap":        handMade(32, f32, 0, 4, 4, 1<<32),
		"offset near the end": handMade(32, f32, 1<<64-32, 4),
		"one byte too long":   handMade(32, i8, 0, 4096),
		"huge alignment":      handMade(1<<31, f32, 0, 4),
		"odd alignment":       handMade(33, f32, 0, 4),
		"negative dimension":  handMade(32, f32, 0, 1<<63),
		"unknown type":        handMade(32, 999, 0, 4),
	}
	for name, data := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.gguf")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := OpenFile(path)
			if err == nil {
				t.Errorf("accepted: %+v", file.Tensors())
				file.Close()
			}
		})
	}
}

func TestPartsAreFoundAndMissingOnesNamed(t *testing.T) {
	part := func(no, count uint32) []byte {
		data, err := os.ReadFile(writeFile(t, "part.gguf", map[string]uint32{keySplitNo: no, keySplitCount: count}))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	dir := t.TempDir()
	path := func(no int) string { return splitPath(filepath.Join(dir, "модель"), no, 3) }
	for no := range 3 {
		if err := os.WriteFile(path(no), part(uint32(no), 3), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	parts, err := OpenParts(path(0))
	if err != nil || len(parts) != 3 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	CloseParts(parts)

	if _, err := OpenParts(path(1)); err == nil || !strings.Contains(err.Error(), path(0)) {
		t.Errorf("second part given: %v", err)
	}
	if err := os.WriteFile(path(2), part(1, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenParts(path(0)); err == nil || !strings.Contains(err.Error(), "says it is part 2") {
		t.Errorf("wrong part: %v", err)
	}
	if err := os.Remove(path(2)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenParts(path(0)); err == nil || !strings.Contains(err.Error(), "part 3 of 3 is missing") {
		t.Errorf("missing part: %v", err)
	}
}

func TestUnreadablePathsGiveTheSystemsReason(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none.gguf")
	var reason *fs.PathError
	if _, err := os.Stat(none); !errors.As(err, &reason) {
		t.Fatal(err)
	}
	for path, want := range map[string]string{none: reason.Err.Error(), dir: "is a directory"} {
		_, fileErr := OpenFile(path)
		_, modelErr := LoadModel(path, ModelParams{})
		for _, err := range []error{fileErr, modelErr} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", path, err, want)
			}
		}
	}
}
