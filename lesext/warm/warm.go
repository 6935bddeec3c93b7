// Package warm keeps what was hot in a file, so that the next run of the same
// model can read it ahead. A file is a hint: the worst that a wrong one does is
// to fill empty slots with experts that nobody wants.
package warm

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
)

// A warm file, numbers being unsigned varints unless given a size:
//
//	magic    8 bytes   "LESWARMS"
//	version  4 bytes   1, little endian
//	model    32 bytes  see Identify
//	uses     number; of each, most used first: number of the expert over all layers, uses
//	check    4 bytes   CRC-32C of all bytes before, little endian
const (
	// Magic is what a warm file begins with.
	Magic      = "LESWARMS"
	version    = 1
	headBytes  = len(Magic) + 4 + len(Identity{})
	entryBytes = 2 * binary.MaxVarintLen64
)

var crcTable = crc32.MakeTable(crc32.Castagnoli)

var (
	// ErrOtherModel says that a file is of another model.
	ErrOtherModel = errors.New("it is of another model")
	// ErrFormat is wrapped by errors that say that a file is damaged, or of
	// another version.
	ErrFormat = errors.New("not a warm file that can be read")
)

// Write writes the uses of the experts of a model.
func Write(out io.Writer, of Identity, index expert.Index, uses []sched.Use) error {
	b := binary.LittleEndian.AppendUint32([]byte(Magic), version)
	b = append(b, of[:]...)
	b = binary.AppendUvarint(b, uint64(len(uses)))
	for _, u := range uses {
		b = binary.AppendUvarint(b, uint64(index.Of(u.Key)))
		b = binary.AppendUvarint(b, uint64(u.Uses))
	}
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crcTable))
	_, err := out.Write(b)
	return err
}

// Read reads the uses of the experts of a model, most used first.
func Read(in io.Reader, of Identity, index expert.Index) ([]sched.Use, error) {
	most := headBytes + binary.MaxVarintLen64 + index.Len()*entryBytes + 4
	text, err := io.ReadAll(io.LimitReader(bufio.NewReader(in), int64(most)+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) < headBytes+4 || string(text[:len(Magic)]) != Magic:
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrFormat, Magic)
	}
	if v := binary.LittleEndian.Uint32(text[len(Magic):]); v != version {
		return nil, fmt.Errorf("%w: version %d, this program reads %d", ErrFormat, v, version)
	}
	if !bytes.Equal(of[:], text[headBytes-len(of):headBytes]) {
		return nil, ErrOtherModel
	}
	body, sum := text[:len(text)-4], binary.LittleEndian.Uint32(text[len(text)-4:])
	if crc32.Checksum(body, crcTable) != sum {
		return nil, fmt.Errorf("%w: it is damaged or cut off", ErrFormat)
	}
	uses, err := parseUses(body[headBytes:], index)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return uses, nil
}

func parseUses(text []byte, index expert.Index) ([]sched.Use, error) {
	in := bytes.NewReader(text)
	n, err := binary.ReadUvarint(in)
	if err != nil || n > uint64(index.Len()) {
		return nil, fmt.Errorf("%d of %d experts", n, index.Len())
	}
	uses, seen := make([]sched.Use, 0, n), make([]bool, index.Len())
	for range n {
		at, keyErr := binary.ReadUvarint(in)
		count, countErr := binary.ReadUvarint(in)
		if err := cmp.Or(keyErr, countErr); err != nil {
			return nil, err
		}
		if at >= uint64(index.Len()) || seen[at] || count == 0 || count > math.MaxUint32 {
			return nil, fmt.Errorf("expert %d with %d uses", at, count)
		}
		seen[at] = true
		uses = append(uses, sched.Use{Key: index.Key(int(at)), Uses: uint32(count)})
	}
	if in.Len() > 0 {
		return nil, fmt.Errorf("%d bytes too many", in.Len())
	}
	return uses, nil
}

// Merge adds half of the uses of runs before to those of this one, so that a
// short run does not wipe out what long ones have learned, most used first.
func Merge(now, before []sched.Use) []sched.Use {
	at, sum := map[expert.Key]int{}, slices.Clone(now)
	for i, u := range now {
		at[u.Key] = i
	}
	for _, u := range before {
		u.Uses /= 2
		if i, ok := at[u.Key]; ok {
			sum[i].Uses = uint32(min(uint64(sum[i].Uses)+uint64(u.Uses), math.MaxUint32))
		} else if u.Uses > 0 {
			sum = append(sum, u)
		}
	}
	slices.SortStableFunc(sum, func(a, b sched.Use) int { return cmp.Compare(b.Uses, a.Uses) })
	return sum
}
