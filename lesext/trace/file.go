package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// A recording is a file of a header, sets and an end. Numbers are unsigned
// varints as in encoding/binary unless given a size:
//
//	magic    8 bytes  "LESROUTE"
//	version  4 bytes  1, little endian
//	model    length, bytes
//	layers   number; of each: block, experts, used, number of reads, bytes of each read
//	sets     kind, microseconds since the set before, layer, tokens (routed sets only),
//	         number of experts, their numbers; kind is 1 byte, 1 for a routed set, 2 for a guess
//	end      kind 0, number of sets
//	check    4 bytes  CRC-32C of all bytes before, little endian
//
// A file without its end was cut off.
const (
	// Magic is what a recording begins with.
	Magic   = "LESROUTE"
	version = 1
)

const (
	kindEnd = iota
	kindRouted
	kindGuessed
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

// ErrFormat is wrapped by all errors that say that a file is no recording, or a
// damaged one.
var ErrFormat = errors.New("not a recording of routes")

// Writer writes a recording. It holds one buffer, whatever the length.
type Writer struct {
	out    *bufio.Writer
	sum    hash.Hash32
	header Header
	marks  []int64
	sets   int64
	lastUS int64
	buf    []byte
}

// NewWriter writes the header.
func NewWriter(out io.Writer, header Header) (*Writer, error) {
	if err := header.Validate(); err != nil {
		return nil, err
	}
	w := &Writer{sum: crc32.New(crcTable), header: header, marks: header.marksFor()}
	w.out = bufio.NewWriter(io.MultiWriter(out, w.sum))
	w.buf = binary.LittleEndian.AppendUint32([]byte(Magic), version)
	w.numbers(int64(len(header.Model)))
	w.buf = append(w.buf, header.Model...)
	w.numbers(int64(len(header.Layers)))
	for _, l := range header.Layers {
		w.numbers(int64(l.Block), int64(l.Experts), int64(l.Used), int64(len(l.Reads)))
		w.numbers(l.Reads...)
	}
	return w, w.flush()
}

// Write adds a set. Times must not run backwards; one that does counts as none.
func (w *Writer) Write(s Set) error {
	if err := w.header.checkSet(s, w.marks, w.sets+1); err != nil {
		return fmt.Errorf("trace: set %d: %w", w.sets, err)
	}
	us := max(w.lastUS, s.TimeNS/1000)
	if s.Guessed {
		w.buf = append(w.buf, kindGuessed)
		w.numbers(us-w.lastUS, int64(s.Layer))
	} else {
		w.buf = append(w.buf, kindRouted)
		w.numbers(us-w.lastUS, int64(s.Layer), int64(s.Tokens))
	}
	w.numbers(int64(len(s.IDs)))
	for _, id := range s.IDs {
		w.numbers(int64(id))
	}
	w.lastUS = us
	w.sets++
	return w.flush()
}

// Close writes the end. The file is the caller's to close.
func (w *Writer) Close() error {
	w.buf = append(w.buf, kindEnd)
	w.numbers(w.sets)
	err := w.flush()
	if err == nil {
		err = w.out.Flush()
	}
	w.buf = binary.LittleEndian.AppendUint32(w.buf, w.sum.Sum32())
	if err == nil {
		err = w.flush()
	}
	if err == nil {
		err = w.out.Flush()
	}
	return err
}

func (w *Writer) numbers(values ...int64) {
	for _, v := range values {
		w.buf = binary.AppendUvarint(w.buf, uint64(v))
	}
}

func (w *Writer) flush() error {
	_, err := w.out.Write(w.buf)
	w.buf = w.buf[:0]
	return err
}
