//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/les-project/les/cgo/llama"
)

// damaged is a copy of a model in which one tensor begins with other bytes.
func damaged(t *testing.T, model, tensor string, begin []byte) string {
	t.Helper()
	data := mustRead(t, model)
	copy(data[tensorOff(t, model, tensor):], begin)
	path := filepath.Join(t.TempDir(), "damaged.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tensorOff is where a tensor begins in its file.
func tensorOff(t *testing.T, path, name string) int64 {
	t.Helper()
	file, err := llama.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, tensor := range file.Tensors() {
		if tensor.Name == name {
			return tensor.Off
		}
	}
	t.Fatalf("%s has no tensor %s", path, name)
	return 0
}

// Values that are no numbers are refused with the file and the tensor, whether the
// tensor is converted, measured or only copied.
func TestValuesThatAreNoNumbersAreRefusedByName(t *testing.T) {
	single := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.NaN())))
	infinite := binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(math.Inf(1))))
	half := []byte{0x00, 0x7e}
	for _, c := range []struct {
		tensor string
		begin  []byte
		flags  []string
	}{
		{"output_norm.weight", single, nil},
		{"blk.1.ffn_gate_inp.weight", infinite, []string{"--layout", "stock"}},
		{"blk.0.ffn_up_exps.weight", half, nil},
		{"blk.0.ffn_up_exps.weight", half, []string{"--target-size", "14M"}},
	} {
		model, out := damaged(t, referenceModel, c.tensor, c.begin), filepath.Join(t.TempDir(), "out.gguf")
		_, stderr, code := lescli(append([]string{"quantize", model, out}, c.flags...)...)
		for _, want := range []string{"tensor " + c.tensor, model, "no numbers"} {
			if code != exitError || !strings.Contains(stderr, want) {
				t.Errorf("%s: exit code %d, no %q: %s", c.tensor, code, want, stderr)
			}
		}
		if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
			t.Errorf("%s: left behind: %v", c.tensor, left)
		}
	}
}

// A size that no types reach is refused before anything is measured, with the
// least that would do.
func TestTargetSizeThatCannotBeSaysTheLeast(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out.gguf")
	_, stderr, code := lescli("quantize", referenceModel, out, "--target-size", "1", "--layout", "stock")
	if want := "--target-size: 1 is too small: with experts in q2_K and q4_k_m for the rest, the least there is, the file has 11121376 bytes"; code != exitError || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	made, _ := quantized(t, referenceModel, "--target-size", "11121376", "--layout", "stock")
	if size := len(mustRead(t, made)); size != 11121376 {
		t.Errorf("the least has %d bytes", size)
	}
}

// counted writes a copy of importance data in which some experts of a tensor were
// seen as often as set says.
func counted(t *testing.T, imatrix, tensor string, set map[int]float32) string {
	t.Helper()
	data, off := mustRead(t, imatrix), tensorOff(t, imatrix, tensor+".counts")
	for id, count := range set {
		binary.LittleEndian.PutUint32(data[off+4*int64(id):], math.Float32bits(count))
	}
	path := filepath.Join(t.TempDir(), "counted.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// evened writes a copy of importance data in which all columns of one expert of a
// tensor count the same.
func evened(t *testing.T, imatrix, tensor string, id, columns int) string {
	t.Helper()
	data := mustRead(t, counted(t, imatrix, tensor, map[int]float32{id: 1}))
	off := tensorOff(t, imatrix, tensor+".in_sum2") + 4*int64(id*columns)
	for i := range int64(columns) {
		binary.LittleEndian.PutUint32(data[off+4*i:], math.Float32bits(1))
	}
	path := filepath.Join(t.TempDir(), "evened.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An expert that was never seen is made with even weights; those beside it with
// their data. A layer without data is named, and made as without any.
func TestUnseenExpertAloneIsMadeWithoutData(t *testing.T) {
	const tensor, experts, unseen = "blk.2.ffn_up_exps.weight", 24, 5
	seen := map[int]float32{}
	for id := range experts {
		seen[id] = 100
	}
	full := counted(t, tinyImatrix(t, referenceModel), tensor, seen)
	matrices := func(flags ...string) (list [][]byte, summary string) {
		out, summary := quantized(t, referenceModel, append(flags, "--layout", "stock")...)
		data, off := mustRead(t, out), tensorOff(t, out, tensor)
		const each = 256 * 256 / 256 * 110 // Q3_K
		for id := range experts {
			list = append(list, data[off+int64(id)*each:off+int64(id+1)*each])
		}
		return list, summary
	}
	plain, _ := matrices()
	even, _ := matrices("--imatrix", evened(t, full, tensor, unseen, 256))
	weighted, _ := matrices("--imatrix", full)
	part, summary := matrices("--imatrix", counted(t, full, tensor, map[int]float32{unseen: 0}))
	if want := "even weights: 1 of 24 experts of " + tensor; !strings.Contains(summary, want) {
		t.Errorf("summary has no %q: %s", want, summary)
	}
	for id := range experts {
		want := weighted[id]
		if id == unseen {
			want = even[id]
		}
		if !bytes.Equal(part[id], want) || bytes.Equal(weighted[id], plain[id]) {
			t.Errorf("expert %d is not made as it should", id)
		}
	}
	for id := range experts {
		seen[id] = 0
	}
	none, summary := matrices("--imatrix", counted(t, full, tensor, seen))
	if want := "even weights: no importance data for " + tensor; !strings.Contains(summary, want) {
		t.Errorf("summary has no %q: %s", want, summary)
	}
	for id := range experts {
		if !bytes.Equal(none[id], plain[id]) {
			t.Errorf("expert %d of a layer without data is not made as without data", id)
		}
	}
}

// A text never reaches a NextN block: it has no data, is named, and quantised like
// a layer.
func TestNextNBlockHasNoDataAndIsNamed(t *testing.T) {
	model := sourceModel(t, "tiny-qwen35moe-nextn")
	imatrix := tinyImatrix(t, model)
	_, summary := quantized(t, model, "--imatrix", imatrix)
	for _, want := range []string{"experts of block 0 to 4: q3_K\n", "no importance data for blk.4.ffn_"} {
		if !strings.Contains(summary, want) {
			t.Errorf("summary has no %q: %s", want, summary)
		}
	}
	_, summary = quantized(t, model, "--imatrix", imatrix, "--experts", "iq2_xs")
	if want := "q2_K instead of iq2_xs, no importance data: blk.4.ffn_"; !strings.Contains(summary, want) {
		t.Errorf("summary has no %q: %s", want, summary)
	}
}

// Killed at moments of chance, nothing has the final name; a signal that asks to
// end leaves nothing at all, and what SIGKILL leaves goes with the next run.
func TestQuantizingThatIsKilledAtAnyMomentLeavesNoFile(t *testing.T) {
	program, dir := builtProgram(t), t.TempDir()
	out := filepath.Join(dir, "out.gguf")
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range 9 {
		signal := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGKILL}[i%3]
		command := exec.Command(program, "quantize", referenceModel, out, "--experts", "iq3_s") // which takes seconds
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(chance.IntN(1000)) * time.Millisecond)
		command.Process.Signal(signal)
		command.Wait() // fails, as it should
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		if killed := signal == syscall.SIGKILL; len(left) > 1 || len(left) == 1 && (!killed || !strings.HasSuffix(left[0], ".part")) {
			t.Errorf("%v leaves %v", signal, left)
		}
	}
	if err := os.WriteFile(out+".77.part", []byte("of a run that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := lescli("quantize", referenceModel, out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 1 || left[0] != out {
		t.Errorf("there are %v", left)
	}
}

// A disk that has no room for importance data is named, before the text is read if
// the room is missing then, and after it if another program has taken it.
func TestImatrixOnAFullDiskSaysSo(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer syscall.Unmount(dir, 0)
	out := filepath.Join(dir, "imatrix.gguf")
	args := []string{"imatrix", "-m", referenceModel, "-f", heldOut, "-o", out, "-c", "128", "--chunks", "2"}
	expectFailure(t, exitError, []string{"--out", out, "bytes, the disk has"}, args...)

	part, err := createPart("out", out)
	if err != nil {
		t.Fatal(err)
	}
	defer part.Discard()
	if _, err := part.Write(make([]byte, 1<<20)); err == nil {
		t.Fatal("the disk is not full")
	}
	if _, err := readBack(part, 1<<20); err == nil || !strings.Contains(err.Error(), out+" was cut off after ") || !strings.Contains(err.Error(), "the disk has 0 free") {
		t.Errorf("error is %v", err)
	}
	if _, err := os.Stat(out); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", out, err)
	}
}

// Whole, or it would be another one.
func TestLongNameOfAModelIsNotCutInImportanceData(t *testing.T) {
	const name, more = "les-ref-go-moe", 20 * 32 // what follows the header keeps its alignment
	data, model := mustRead(t, referenceModel), filepath.Join(t.TempDir(), "long.gguf")
	at := bytes.Index(data, []byte(name))
	binary.LittleEndian.PutUint64(data[at-8:], uint64(len(name)+more)) // a text has its length before it
	if err := os.WriteFile(model, slices.Insert(data, at, bytes.Repeat([]byte("x"), more)...), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code := lescli("quantize", model, "--dry-run", "--imatrix", tinyImatrix(t, model), "--allow-requantize")
	if code != exitOK || strings.Contains(stdout, "of a model called") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
