package repack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// copyBytes is how much is read at once: enough for any disk, little beside the
// metadata.
const copyBytes = 4 << 20

// copier reads stretches of files piece by piece.
type copier struct {
	ctx         context.Context
	buf         []byte
	progress    func(done, total int64) // may be nil
	done, total int64
}

func newCopier(ctx context.Context, progress func(done, total int64), total int64) *copier {
	return &copier{ctx: ctx, buf: make([]byte, copyBytes), progress: progress, total: total}
}

// copy hands the bytes to sink, which must not keep them. It ends early when
// the context does.
func (c *copier) copy(file *os.File, off, bytes int64, sink func([]byte) error) error {
	for bytes > 0 {
		if c.ctx.Err() != nil {
			return context.Cause(c.ctx)
		}
		piece := c.buf[:min(bytes, int64(len(c.buf)))]
		if _, err := file.ReadAt(piece, off); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("%s: read %d bytes at offset %d: %w", file.Name(), len(piece), off, err)
		}
		if err := sink(piece); err != nil {
			return err
		}
		off += int64(len(piece))
		bytes -= int64(len(piece))
		c.report(int64(len(piece)))
	}
	return nil
}

func (c *copier) report(bytes int64) {
	c.done += bytes
	if c.progress != nil {
		c.progress(c.done, c.total)
	}
}
