package repack

import (
	"bytes"
	"fmt"
	"os"
)

// gapBytesMax bounds what is kept of the bytes between tensors. In a file with
// the usual alignment they are some kilobytes.
const gapBytesMax = 16 << 20

// stretches are where the bytes of one tensor lie: one stretch in the stock
// layout, one for each expert in the contiguous one.
type stretches struct {
	file              *os.File
	off, each, stride int64
	n                 int
}

func (s stretches) bytes() int64 { return s.each * int64(s.n) }

// original is a file of the stock layout, as a sequence of bytes.
type original struct {
	header       []byte
	keepHeader   bool // ggml writes it differently
	alignment    int64
	alignmentKey int         // which of the keys says so, -1 for none
	tensors      []stretches // in the order of the file
	gaps         []byte      // behind each of the tensors; nil when all are zero
	bytes        int64
}

// paddedBytes is the size of a file that ends with the padding of its last
// tensor.
func (o *original) paddedBytes() int64 {
	bytes := int64(len(o.header))
	for _, tensor := range o.tensors {
		bytes += roundUp(tensor.bytes(), o.alignment)
	}
	return bytes
}

// eachGap calls fn with the place and the length of what lies behind each
// tensor; behind the last one that is whatever the file ends with.
func (o *original) eachGap(fn func(tensor int, off, bytes int64) error) error {
	off := int64(len(o.header))
	for i, tensor := range o.tensors {
		off += tensor.bytes()
		gap := roundUp(tensor.bytes(), o.alignment) - tensor.bytes()
		if i == len(o.tensors)-1 {
			gap = o.bytes - off
		}
		if gap < 0 {
			return fmt.Errorf("%d bytes have no room for the tensors", o.bytes)
		}
		if err := fn(i, off, gap); err != nil {
			return err
		}
		off += gap
	}
	return nil
}

// gapBytes is the length of all gaps.
func (o *original) gapBytes() (total int64, err error) {
	err = o.eachGap(func(_ int, _, bytes int64) error {
		total += bytes
		return nil
	})
	return total, err
}

// readGaps keeps what lies between the tensors of the file, unless it is all
// zero.
func (o *original) readGaps(file *os.File) error {
	total, err := o.gapBytes()
	if err != nil {
		return fmt.Errorf("%s: %w", file.Name(), err)
	}
	if total > gapBytesMax {
		return fmt.Errorf("%s: has %d bytes that are of no tensor, more than the %d that can be kept", file.Name(), total, int64(gapBytesMax))
	}
	gaps := make([]byte, 0, total)
	err = o.eachGap(func(_ int, off, bytes int64) error {
		n := int64(len(gaps))
		gaps = gaps[:n+bytes]
		_, err := file.ReadAt(gaps[n:], off)
		return err
	})
	if err != nil {
		return err
	}
	if len(bytes.Trim(gaps, "\x00")) > 0 {
		o.gaps = gaps
	}
	return nil
}

// stream hands all bytes of the original to sink, from the first to the last.
func (o *original) stream(c *copier, sink func([]byte) error) error {
	if err := sink(o.header); err != nil {
		return err
	}
	gaps := o.gaps
	return o.eachGap(func(i int, _, bytes int64) error {
		tensor := o.tensors[i]
		for n := range tensor.n {
			if err := c.copy(tensor.file, tensor.off+int64(n)*tensor.stride, tensor.each, sink); err != nil {
				return err
			}
		}
		if gaps != nil {
			gap := gaps[:bytes]
			gaps = gaps[bytes:]
			return sink(gap)
		}
		for ; bytes > 0; bytes -= min(bytes, int64(len(padding))) {
			if err := sink(padding[:min(bytes, int64(len(padding)))]); err != nil {
				return err
			}
		}
		return nil
	})
}

func roundUp(n, align int64) int64 { return (n + align - 1) / align * align }
