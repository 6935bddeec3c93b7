package warm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/les-project/les/lesext/expert"
)

// Identity tells models apart, also those of one shape and size: it is a hash of
// the geometry and, of each file, its size, its beginning and blocks spread over
// it. It does not depend on names, so that a file may be moved.
type Identity [sha256.Size]byte

const (
	// beginBytes covers the metadata that differs between models of one family,
	// such as names.
	beginBytes = 64 << 10
	// blockBytes and blocks sample the weights: 128 KiB of random reads, which
	// flash brings in a few milliseconds.
	blockBytes = 4 << 10
	blocks     = 32
)

// Identify reads the identity of a model from its files.
func Identify(g expert.Geometry) (id Identity, err error) {
	sum := sha256.New()
	for _, layer := range g.Layers {
		fmt.Fprintf(sum, "%d %d %d %v\n", layer.Block, layer.Experts, layer.Used, layer.Spans)
	}
	for _, name := range g.Files {
		if err := addFile(sum, name); err != nil {
			return id, err
		}
	}
	return Identity(sum.Sum(nil)), nil
}

func addFile(sum hash.Hash, name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%d\n", info.Size())
	if err := addBytes(sum, file, 0, beginBytes); err != nil {
		return err
	}
	last := max(0, info.Size()-blockBytes)
	for i := range int64(blocks) {
		// Divided first: a product with the size of a file may overflow.
		if err := addBytes(sum, file, last/(blocks-1)*i, blockBytes); err != nil {
			return err
		}
	}
	return addBytes(sum, file, last, blockBytes)
}

func addBytes(sum hash.Hash, file *os.File, off, n int64) error {
	_, err := io.CopyN(sum, io.NewSectionReader(file, off, n), n)
	if errors.Is(err, io.EOF) {
		err = nil // the file is shorter
	}
	return err
}
