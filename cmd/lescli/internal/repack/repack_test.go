package repack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/layout"
)

func TestMain(m *testing.M) {
	llama.Init()
	llama.SetLog(nil)
	os.Exit(m.Run())
}

// handMade is a small model file with an alignment of its own, whose key is not
// the last one. Experts differ in type, so that matrices do not end at a
// multiple of anything.
func handMade(t *testing.T, alignment int64) []byte {
	t.Helper()
	w, err := llama.NewAlignedWriter(8, alignment)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = errors.Join(w.SetString("general.architecture", "frob"))
	if alignment != 32 {
		err = errors.Join(err, w.SetUint32(llama.KeyAlignment, uint32(alignment)))
	}
	err = errors.Join(err,
		w.SetStrings("tokens", []string{"a", "", "ccc"}), w.SetFloat32("float", 1.5), w.SetBool("truth", true),
		w.AddTensor("blk.0.ffn_down_exps.weight", llama.F32, 5, 3, 4),
		w.AddTensor("token_embd.weight", llama.F32, 7),
		w.AddTensor("blk.0.ffn_up_exps.weight", llama.Q8_0, 32, 5, 4),
		w.AddTensor("blk.0.ffn_gate_exps.weight", llama.Q3K, 256, 1, 4),
		w.AddTensor("blk.2.ffn_gate_up_exps.weight", llama.F16, 3, 3, 2),
		w.AddTensor("blk.2.ffn_down_exps.weight", llama.F32, 4096, 3, 2),
		w.AddTensor("output.weight", llama.F32, 3, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	data := append(w.Meta(), make([]byte, w.DataBytes())...)
	r := rand.NewChaCha8([32]byte{1})
	for i := range 7 {
		off, size := w.Tensor(i)
		r.Read(data[w.MetaBytes()+off:][:size])
	}
	return data
}

func writeModel(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "модель.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// roundTrip repacks, checks and unpacks, and returns the rewritten file's path.
func roundTrip(t *testing.T, in string, want []byte) string {
	t.Helper()
	ctx, dir := t.Context(), t.TempDir()
	packed, back := filepath.Join(dir, "packed"), filepath.Join(dir, "back")
	if _, err := Repack(ctx, in, packed, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(ctx, packed, nil, func(d Damage) { t.Errorf("damaged: %v", d) }); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(ctx, packed, back, Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(back)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v; %d were there, equal up to %d", len(got), err, len(want), sameUpTo(got, want))
	}
	return packed
}

func sameUpTo(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func hasKey(t *testing.T, path, key string) bool {
	t.Helper()
	file, err := llama.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, one := range file.Keys() {
		if one == key {
			return true
		}
	}
	return false
}

func TestOriginalComesBackWhateverItsHeaderAndPadding(t *testing.T) {
	plain, aligned := handMade(t, 32), handMade(t, 256)
	older := bytes.Clone(plain)
	older[4] = 2 // version 2, which ggml reads and does not write
	padded := bytes.Clone(aligned)
	padded[len(padded)-1] = 7
	whole := len(plain) - 32 + 12 // the last tensor has 12 bytes
	cases := map[string]struct {
		data         []byte
		header, gaps bool // are kept
	}{
		"plain":                     {plain, false, false},
		"own alignment":             {aligned, false, false},
		"older version":             {older, true, false},
		"padding that is not zero":  {padded, false, true},
		"no padding at the end":     {plain[:whole], false, false},
		"something behind the end":  {append(bytes.Clone(plain), "trailer"...), false, true},
		"nothing but zeroes behind": {append(bytes.Clone(plain), make([]byte, 70000)...), false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			packed := roundTrip(t, writeModel(t, c.data), c.data)
			if hasKey(t, packed, layout.KeyHeader) != c.header || hasKey(t, packed, layout.KeyGaps) != c.gaps {
				t.Errorf("header kept: %v, gaps kept: %v", !c.header, !c.gaps)
			}
		})
	}
}

func TestDigestOfTheOriginalIsRecorded(t *testing.T) {
	data := handMade(t, 64)
	file, err := llama.OpenFile(roundTrip(t, writeModel(t, data), data))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	sum := sha256.Sum256(data)
	if got, ok := file.String(layout.KeySHA256); !ok || got != hex.EncodeToString(sum[:]) {
		t.Errorf("digest is %q, want %x", got, sum)
	}
	if file.Alignment() != 4096 {
		t.Errorf("alignment is %d", file.Alignment())
	}
}

// stoppingAt cancels when that share of the work is done.
func stoppingAt(share float64) (context.Context, func(done, total int64)) {
	ctx, cancel := context.WithCancel(context.Background())
	return ctx, func(done, total int64) {
		if float64(done) >= share*float64(total) {
			cancel()
		}
	}
}

func TestInterruptedWriteLeavesNothing(t *testing.T) {
	data := handMade(t, 32)
	in := writeModel(t, data)
	packed := roundTrip(t, in, data)
	dir := t.TempDir()
	for _, share := range []float64{0, 0.3, 0.9} {
		for name, write := range map[string]func(context.Context, string, string, Options) (*Result, error){"repack": Repack, "unpack": Unpack} {
			from := map[string]string{"repack": in, "unpack": packed}[name]
			ctx, progress := stoppingAt(share)
			if _, err := write(ctx, from, filepath.Join(dir, "out"), Options{Progress: progress}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s at %v: error is %v", name, share, err)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if got, err := os.ReadFile(in); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the input has changed, %v", err)
	}
}

// A file that shrinks while it is read must not become a model.
func TestInputThatShrinksIsAnError(t *testing.T) {
	in := writeModel(t, handMade(t, 32))
	src, err := OpenSource(in)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if err := os.Truncate(in, src.parts[0].DataOff()+10); err != nil {
		t.Fatal(err)
	}
	err = newCopier(t.Context(), nil, 0).copy(src.files[0], src.tensors[1].Off, 28, func([]byte) error { return nil })
	if err == nil || !strings.Contains(err.Error(), in+": read 28 bytes at offset ") || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("error is %v", err)
	}
}

func TestImpossibleRecordOfTheOriginalIsRefused(t *testing.T) {
	data := handMade(t, 64)
	packed := roundTrip(t, writeModel(t, data), data)
	whole, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		key  string // and its type
		want string
	}{
		"alignment":     {layout.KeyAlignment + "\x04\x00\x00\x00", layout.KeyAlignment + " is "},
		"size too much": {layout.KeyBytes + "\x0a\x00\x00\x00", ""},
	}
	for name, c := range cases {
		at := bytes.Index(whole, []byte(c.key)) + len(c.key)
		changed := bytes.Clone(whole)
		copy(changed[at:], "\xff\xff\xff\x7f")
		path := writeModel(t, changed)
		out := filepath.Join(t.TempDir(), "out")
		if _, err := Unpack(t.Context(), path, out, Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error is %v", name, err)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}
