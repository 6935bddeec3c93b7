//go:build !linux

package outfile

import "os"

// reserve gives the file its size.
func reserve(file *os.File, bytes int64) error { return file.Truncate(bytes) }
