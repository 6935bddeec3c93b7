package repack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/les-project/les/lesext/layout"
	"github.com/les-project/les/lesext/outfile"
)

// Unpack writes the file that was rewritten, byte for byte, or that its parts
// make when they are merged.
func Unpack(ctx context.Context, in, out string, opts Options) (*Result, error) {
	p, err := openPacked(in)
	if err != nil {
		return nil, err
	}
	defer p.close()
	orig, err := p.original()
	if err != nil {
		return nil, err
	}
	if err := outfile.Check(out, opts.Force, in); err != nil {
		return nil, err
	}
	file, err := outfile.Create(out, orig.bytes)
	if err != nil {
		return nil, err
	}
	digest, at := sha256.New(), int64(0)
	err = orig.stream(newCopier(ctx, opts.Progress, orig.bytes), func(p []byte) error {
		digest.Write(p)
		_, err := file.WriteAt(p, at)
		at += int64(len(p))
		return err
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = p.compareDigest(digest.Sum(nil))
	}
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		return nil, errors.Join(err, file.Discard())
	}
	return resultOf(p.stored.Layers, len(p.stored.Others), orig.bytes), nil
}

// compareDigest compares the digest of what is given back with the recorded one.
func (p *packed) compareDigest(digest []byte) error {
	want, ok := p.meta.String(layout.KeySHA256)
	if !ok {
		return fmt.Errorf("%s: %s is missing", p.meta.Path(), layout.KeySHA256)
	}
	if got := hex.EncodeToString(digest); got != want {
		return fmt.Errorf("%s: does not give the original back: sha256 %s, recorded is %s; lescli check says what is damaged", p.meta.Path(), got, want)
	}
	return nil
}
