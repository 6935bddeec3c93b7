package repack

import (
	"context"
	"crypto/sha256"
	"fmt"
	"hash/crc32"
	"os"
)

// Damage is one stretch of a file that does not match its checksum.
type Damage struct {
	Block, Expert int    // of an expert
	Tensor        string // of anything else; empty for experts
	Off, Bytes    int64  // in the file
	Got, Want     uint32
}

func (d Damage) String() string {
	return fmt.Sprintf("%s: %d bytes at offset %d (%#x): checksum %08x, recorded is %08x", d.name(), d.Bytes, d.Off, d.Off, d.Got, d.Want)
}

func (d Damage) name() string {
	if d.Tensor != "" {
		return "tensor " + d.Tensor
	}
	return fmt.Sprintf("block %d, expert %d", d.Block, d.Expert)
}

// Check compares all of a contiguous file with its checksums and calls damaged
// for each stretch that differs. A file of another size than it was written with is
// refused at once. Where nothing differs, the file is read once more, in
// the order of the original: what has no checksum, such as metadata, is damaged if
// that does not give the original back.
func Check(ctx context.Context, path string, progress func(done, total int64), damaged func(Damage)) (*Result, error) {
	p, err := openPacked(path)
	if err != nil {
		return nil, err
	}
	defer p.close()
	info, err := p.file.Stat()
	if err != nil {
		return nil, err
	}
	if err := p.checkSize(info.Size()); err != nil {
		return nil, err
	}
	c := &checker{copier: newCopier(ctx, progress, 2*info.Size()), file: p.file, damaged: damaged}
	n, data := 0, p.meta.DataOff()
	ofExperts := map[int]bool{}
	for _, layer := range p.stored.Layers {
		for _, part := range layer.Parts {
			ofExperts[part.Tensor] = true
		}
	}
	for i, info := range p.meta.Tensors() {
		if p.stored.Names[i] == "" || ofExperts[i] {
			continue
		}
		if err := c.check(Damage{Tensor: info.Name, Off: info.Off, Bytes: info.Bytes, Want: p.stored.Others[n]}); err != nil {
			return nil, err
		}
		n++
	}
	n = 0
	for _, layer := range p.stored.Layers {
		for id := range layer.Experts {
			off := data + layer.Off + int64(id)*layer.Stride
			if err := c.check(Damage{Block: layer.Block, Expert: id, Off: off, Bytes: layer.Stride, Want: p.stored.Checksums[n]}); err != nil {
				return nil, err
			}
			n++
		}
	}
	if !c.found {
		err = p.restores(c.copier)
	}
	return resultOf(p.stored.Layers, len(p.stored.Others), info.Size()), err
}

// restores fails where the file does not give the original back.
func (p *packed) restores(c *copier) error {
	orig, err := p.original()
	if err != nil {
		return err
	}
	digest := sha256.New()
	if err := orig.stream(c, func(b []byte) error { digest.Write(b); return nil }); err != nil {
		return err
	}
	return p.compareDigest(digest.Sum(nil))
}

// checker goes through one file.
type checker struct {
	*copier
	file    *os.File
	damaged func(Damage)
	found   bool // anything damaged
}

// check compares one stretch.
func (c *checker) check(d Damage) error {
	err := c.copy(c.file, d.Off, d.Bytes, func(p []byte) error {
		d.Got = crc32.Update(d.Got, castagnoli, p)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", d.name(), err)
	}
	if d.Got != d.Want {
		c.found = true
		c.damaged(d)
	}
	return nil
}
