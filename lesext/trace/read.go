package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/les-project/les/lesext/expert"
)

// Recording is a whole recording in memory, a few times as large as its file.
type Recording struct {
	Header
	Sets []Set
}

// Tokens is how many tokens the first layer has routed.
func (r *Recording) Tokens() (sum int) {
	for _, s := range r.Sets {
		if !s.Guessed && s.Layer == 0 {
			sum += s.Tokens
		}
	}
	return sum
}

// Read reads a recording and checks all of it.
func Read(in io.Reader) (*Recording, error) {
	r := &reader{in: bufio.NewReader(in)}
	rec := r.recording()
	if r.err != nil {
		return nil, fmt.Errorf("%w: at byte %d: %w", ErrFormat, r.off, r.err)
	}
	return rec, nil
}

// reader reads numbers and remembers the first error, after which all is zero.
type reader struct {
	in  *bufio.Reader
	off int64
	sum uint32
	err error
	one [1]byte
}

// ReadByte makes the reader a source of varints.
func (r *reader) ReadByte() (byte, error) {
	b, err := r.in.ReadByte()
	if err != nil {
		return 0, err
	}
	r.one[0] = b
	r.sum = crc32.Update(r.sum, crcTable, r.one[:])
	r.off++
	return b, nil
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// number reads a number of at most limit.
func (r *reader) number(what string, limit int64) int64 {
	if r.err != nil {
		return 0
	}
	v, err := binary.ReadUvarint(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	switch {
	case err != nil:
		r.fail("%s: %w", what, err)
	case v > uint64(limit):
		r.fail("%s is %d, at most %d", what, v, limit)
	default:
		return int64(v)
	}
	return 0
}

// bytes reads n bytes; n has been checked.
func (r *reader) bytes(what string, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n && r.err == nil; i++ {
		var err error
		if b[i], err = r.ReadByte(); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			r.fail("%s: %w", what, err)
		}
	}
	return b
}

func (r *reader) recording() *Recording {
	if string(r.bytes("magic", len(Magic))) != Magic {
		r.fail("it does not begin with %s", Magic)
	}
	if v := binary.LittleEndian.Uint32(r.bytes("version", 4)); v != version {
		r.fail("version %d, this program reads %d", v, version)
	}
	rec := &Recording{Header: r.header()}
	if r.err == nil {
		r.err = rec.Validate()
	}
	marks := rec.marksFor()
	var us int64
	for r.err == nil {
		s, end := r.set(&us)
		if r.err == nil && end {
			r.end(len(rec.Sets))
			break
		}
		if r.err == nil {
			r.err = rec.checkSet(s, marks, int64(len(rec.Sets))+1)
		}
		rec.Sets = append(rec.Sets, s)
	}
	return rec
}

func (r *reader) header() (h Header) {
	h.Model = string(r.bytes("model", int(r.number("length of the model's name", modelNameMax))))
	for range r.number("layers", expert.LayersMax) {
		l := Layer{
			Block: int(r.number("block", math.MaxInt32)), Experts: int(r.number("experts", expert.ExpertsMax)),
			Used: int(r.number("experts used", expert.ExpertsMax)),
		}
		for range r.number("reads", expert.SpansMax) {
			l.Reads = append(l.Reads, r.number("bytes of a read", readBytesMax))
		}
		h.Layers = append(h.Layers, l)
	}
	return h
}

// set reads one set, or the kind that ends them.
func (r *reader) set(us *int64) (s Set, end bool) {
	switch kind := r.bytes("kind of a set", 1)[0]; kind {
	case kindEnd:
		return s, true
	case kindRouted, kindGuessed:
		s.Guessed = kind == kindGuessed
	default:
		r.fail("a set of kind %d", kind)
	}
	const timeMax = math.MaxInt64 / 1000
	*us += r.number("time", timeMax-*us)
	s.TimeNS = *us * 1000
	s.Layer = int(r.number("layer", expert.LayersMax))
	if !s.Guessed {
		s.Tokens = int(r.number("tokens", math.MaxInt32))
	}
	for range r.number("experts of a set", expert.ExpertsMax) {
		if r.err != nil {
			break
		}
		s.IDs = append(s.IDs, int32(r.number("expert", expert.ExpertsMax)))
	}
	return s, false
}

// end checks the count and the checksum, and that nothing follows.
func (r *reader) end(sets int) {
	if n := r.number("sets", math.MaxInt64); r.err == nil && n != int64(sets) {
		r.fail("%d sets, the end says %d", sets, n)
	}
	want := r.sum
	if got := binary.LittleEndian.Uint32(r.bytes("checksum", 4)); r.err == nil && got != want {
		r.fail("checksum %#x, want %#x: the file is damaged", got, want)
	}
	if _, err := r.in.ReadByte(); r.err == nil && err != io.EOF {
		r.fail("more bytes follow the end")
	}
}
