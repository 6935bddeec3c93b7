package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/les-project/les/lesext/probe"
	"github.com/les-project/les/lesext/system"
)

// probeFile is the file that doctor reads.
type probeFile struct {
	path        string
	bytes       int64
	deviceBytes int64 // that the file takes, fewer than bytes when it has holes, -1 when unknown
	temporary   bool
}

// temporaryBytes is the size of the file that is written for a directory: as
// large as what devices commonly cache themselves, and written in some seconds.
// writeBytes is one write of it.
const (
	temporaryBytes = 512 << 20
	writeBytes     = 4 << 20
)

// openProbeFile checks the file, or writes one into the directory.
func openProbeFile(ctx context.Context, path string, line *progressLine) (*probeFile, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		return writeProbeFile(ctx, path, line)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is neither a file nor a directory", path)
	}
	if info.Size() < probe.FileBytesMin {
		return nil, fmt.Errorf("%s: has %d bytes, too few to measure: at least %d are needed; give the directory instead, and a temporary file is read",
			path, info.Size(), int64(probe.FileBytesMin))
	}
	return &probeFile{path: path, bytes: info.Size(), deviceBytes: system.DeviceBytes(info)}, nil
}

// writeProbeFile writes a temporary file. It is on the device when the call
// returns, and removed when the call fails.
func writeProbeFile(ctx context.Context, dir string, line *progressLine) (_ *probeFile, err error) {
	bytes, err := roomFor(dir)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(dir, "lescli-doctor-*.tmp")
	if err != nil {
		return nil, err
	}
	f := &probeFile{path: file.Name(), bytes: bytes, deviceBytes: bytes, temporary: true}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			err = errors.Join(err, f.remove())
		}
	}()
	block := make([]byte, writeBytes)
	for at := int64(0); at < bytes; at += writeBytes {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		fillRandom(block, uint64(at+1))
		if _, err := file.Write(block); err != nil {
			return nil, err
		}
		line.show("doctor: writing %s, %d of %d MiB", filepath.Base(f.path), at>>20, bytes>>20)
	}
	if err := file.Sync(); err != nil {
		return nil, err
	}
	return f, nil
}

// roomFor is the size of the temporary file: at most an eighth of what is free.
func roomFor(dir string) (int64, error) {
	free, err := system.FreeDiskBytes(dir)
	if err != nil {
		return 0, err
	}
	bytes := min(temporaryBytes, free/8) / writeBytes * writeBytes
	if bytes < probe.FileBytesMin {
		return 0, fmt.Errorf("%s: %s are free, too few for a temporary file to measure: at least %s are needed",
			dir, formatSize(free), formatSize(8*probe.FileBytesMin))
	}
	return bytes, nil
}

// fillRandom fills a block with bytes that no device can compress, fast.
func fillRandom(block []byte, seed uint64) {
	state := seed*0x9e3779b97f4a7c15 | 1
	for i := 0; i+8 <= len(block); i += 8 {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		binary.LittleEndian.PutUint64(block[i:], state)
	}
}

// remove deletes the file if it was written for the measurement.
func (f *probeFile) remove() error {
	if !f.temporary {
		return nil
	}
	return os.Remove(f.path)
}
