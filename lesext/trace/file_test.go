package trace_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/trace"
)

func testHeader() trace.Header {
	return trace.Header{Model: "модель.gguf", Layers: []trace.Layer{
		{Block: 1, Experts: 8, Used: 2, Reads: []int64{1000, 500}}, {Block: 4, Experts: 300, Used: 3, Reads: []int64{1 << 33}},
	}}
}

func testSets() []trace.Set {
	return []trace.Set{
		{TimeNS: 5000, Layer: 0, Tokens: 1, IDs: []int32{1, 7}},
		{TimeNS: 6000, Layer: 1, IDs: []int32{299, 0, 128}, Guessed: true},
		{TimeNS: 9000, Layer: 1, Tokens: 2, IDs: []int32{0, 5, 200, 299}},
	}
}

func record(t testing.TB, sets []trace.Set) []byte {
	t.Helper()
	var file bytes.Buffer
	w, err := trace.NewWriter(&file, testHeader())
	for _, s := range sets {
		err = errors.Join(err, w.Write(s))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

func TestRecordingIsReadAsWritten(t *testing.T) {
	rec, err := trace.Read(bytes.NewReader(record(t, testSets())))
	if err != nil || !reflect.DeepEqual(rec.Header, testHeader()) || !reflect.DeepEqual(rec.Sets, testSets()) {
		t.Errorf("read %+v, error %v", rec, err)
	}
	if rec.Tokens() != 1 || rec.Experts() != 308 || rec.Layers[0].Bytes() != 1500 {
		t.Errorf("%d tokens, %d experts, %d bytes", rec.Tokens(), rec.Experts(), rec.Layers[0].Bytes())
	}
}

func TestRecordingCutOffAnywhereIsRefused(t *testing.T) {
	file := record(t, testSets())
	for n := range file {
		if _, err := trace.Read(bytes.NewReader(file[:n])); !errors.Is(err, trace.ErrFormat) || !strings.Contains(err.Error(), "at byte") {
			t.Fatalf("%d of %d bytes: error %v", n, len(file), err)
		}
	}
}

func TestDamagedRecordingIsRefused(t *testing.T) {
	file := record(t, testSets())
	for i := range file {
		bad := bytes.Clone(file)
		bad[i] ^= 0x21
		if _, err := trace.Read(bytes.NewReader(bad)); !errors.Is(err, trace.ErrFormat) {
			t.Errorf("byte %d changed: error %v", i, err)
		}
	}
	if _, err := trace.Read(bytes.NewReader(append(file, 0))); err == nil {
		t.Error("bytes behind the end were taken")
	}
}

func TestSetsThatCannotBeAreNotWritten(t *testing.T) {
	bad := map[string]trace.Set{
		"layer 2 of 2":       {Layer: 2, Tokens: 1, IDs: []int32{1}},
		"expert 8 of 8":      {Layer: 0, Tokens: 1, IDs: []int32{8}},
		"expert -1":          {Layer: 0, Tokens: 1, IDs: []int32{-1}},
		"expert 3 is there":  {Layer: 0, Tokens: 1, IDs: []int32{3, 3}},
		"0 of 8 experts":     {Layer: 0, Tokens: 1},
		"a set of 0 tokens":  {Layer: 0, IDs: []int32{1}},
		"a set of 1 tokens,": {Layer: 0, Tokens: 1, IDs: []int32{1}, Guessed: true},
	}
	for want, s := range bad {
		w, err := trace.NewWriter(&bytes.Buffer{}, testHeader())
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestHeaderIsCheckedAsAWhole(t *testing.T) {
	_, err := trace.NewWriter(&bytes.Buffer{}, trace.Header{Layers: []trace.Layer{{Block: -1, Experts: 2, Used: 3, Reads: []int64{0}}}})
	for _, want := range []string{"block -1", "3 of 2 experts", "a read of 0 bytes"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error does not say %q: %v", want, err)
		}
	}
}

func TestHeaderHasTheReadsOfAGeometry(t *testing.T) {
	g := expert.Geometry{Files: []string{"m"}, Align: expert.Align, SlotBytes: 3 * expert.Align, Layers: []expert.Layer{{
		Block: 3, Experts: 4, Used: 1, Spans: []expert.Span{
			{Off: 0, Stride: 2 * expert.Align, Bytes: expert.Align},
			{Off: expert.Align, Stride: 2 * expert.Align, Bytes: expert.Align, SlotOff: expert.Align},
			{Off: 1 << 20, Stride: 100, Bytes: 100, SlotOff: 2 * expert.Align},
		},
	}}}
	want := []trace.Layer{{Block: 3, Experts: 4, Used: 1, Reads: []int64{2 * expert.Align, 100}}}
	if h := trace.HeaderOf("m", g); !reflect.DeepEqual(h.Layers, want) {
		t.Errorf("layers %+v, want %+v", h.Layers, want)
	}
}

func TestNilRoutesRecordNothing(t *testing.T) {
	var routes *trace.Routes
	routes.Record(trace.Set{IDs: []int32{1}})
	lost, err := routes.Drain(func(trace.Set) error { t.Error("a set is in a nil buffer"); return nil })
	if lost != 0 || err != nil {
		t.Errorf("%d lost, error %v", lost, err)
	}
}

func TestRoutesAreTakenOnceAndBounded(t *testing.T) {
	r := trace.NewRoutes(2, 5)
	for _, s := range testSets() {
		r.Record(s)
	}
	var got []trace.Set
	visit := func(s trace.Set) error {
		got = append(got, s)
		return nil
	}
	if lost, err := r.Drain(visit); lost != 1 || err != nil || !reflect.DeepEqual(got, testSets()[:2]) {
		t.Errorf("sets %+v, %d lost, error %v", got, lost, err)
	}
	if lost, err := r.Drain(visit); lost != 0 || err != nil || len(got) != 2 {
		t.Errorf("%d sets after the second call, %d lost, error %v", len(got), lost, err)
	}
	set := testSets()[0]
	if n := testing.AllocsPerRun(100, func() { r.Record(set) }); n != 0 {
		t.Errorf("%v allocations in Record", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(record(f, testSets()))
	f.Add(record(f, nil))
	f.Add([]byte("LESROUTE\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, file []byte) {
		rec, err := trace.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		var again bytes.Buffer
		w, err := trace.NewWriter(&again, rec.Header)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range rec.Sets {
			if err := w.Write(s); err != nil {
				t.Fatal(err)
			}
		}
	})
}
