package llama

/*
#include "llama.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
)

// Keys of a model in several files.
const (
	keySplitCount = "split.count"
	keySplitNo    = "split.no"
)

// splitPartsMax is far above what any model has; it bounds what a damaged
// count can make us do.
const splitPartsMax = 9999

// OpenParts reads the metadata of a model and of all its parts. The given file
// must be the only or the first one.
func OpenParts(path string) ([]*File, error) {
	first, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	parts := []*File{first}
	if err := openOthers(&parts); err != nil {
		CloseParts(parts)
		return nil, err
	}
	return parts, nil
}

// CloseParts frees the metadata of all parts.
func CloseParts(parts []*File) {
	for _, part := range parts {
		part.Close()
	}
}

// openOthers appends the parts after the first.
func openOthers(parts *[]*File) error {
	first := (*parts)[0]
	count, ok := first.Int(keySplitCount)
	if !ok || count <= 1 {
		return nil
	}
	if count > splitPartsMax {
		return fmt.Errorf("%s: says it has %d parts", first.path, count)
	}
	no, _ := first.Int(keySplitNo)
	prefix, ok := splitPrefix(first.path, int(no), int(count))
	if !ok {
		return fmt.Errorf("%s: is part %d of %d, but is not named like one", first.path, no+1, count)
	}
	if no != 0 {
		return fmt.Errorf("%s: is part %d of %d; give the first part, %s",
			first.path, no+1, count, splitPath(prefix, 0, int(count)))
	}
	for i := 1; i < int(count); i++ {
		part, err := openPart(splitPath(prefix, i, int(count)), i, int(count))
		if err != nil {
			return err
		}
		*parts = append(*parts, part)
	}
	return nil
}

func openPart(path string, i, count int) (*File, error) {
	part, err := OpenFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("part %d of %d is missing: %w", i+1, count, err)
	}
	if err != nil {
		return nil, fmt.Errorf("part %d of %d: %w", i+1, count, err)
	}
	no, ok := part.Int(keySplitNo)
	if ok && int(no) == i {
		return part, nil
	}
	part.Close()
	if !ok {
		return nil, fmt.Errorf("%s: should be part %d of %d, but is not a part", path, i+1, count)
	}
	return nil, fmt.Errorf("%s: should be part %d of %d, but says it is part %d", path, i+1, count, no+1)
}

// splitPath is the name of a part, as llama.cpp forms it.
func splitPath(prefix string, i, count int) string {
	path := ""
	// A NUL byte is impossible here: the first part was opened by this name.
	_ = withCString(prefix, func(cprefix *C.char) {
		path, _ = readString(len(prefix)+64, func(buf *C.char, size C.size_t) C.int32_t {
			return C.llama_split_path(buf, size, cprefix, C.int32_t(i), C.int32_t(count))
		})
	})
	return path
}

// splitPrefix is the common start of the names of all parts, or false when the
// name of the file does not fit its place.
func splitPrefix(path string, i, count int) (string, bool) {
	prefix := ""
	_ = withCString(path, func(cpath *C.char) {
		prefix, _ = readString(len(path)+1, func(buf *C.char, size C.size_t) C.int32_t {
			return C.llama_split_prefix(buf, size, cpath, C.int32_t(i), C.int32_t(count))
		})
	})
	return prefix, prefix != ""
}
