//go:build !linux && !darwin && !windows

package system

import (
	"io/fs"
	"math"
	"os"
)

// AvailableMemory is not told.
func AvailableMemory() (int64, error) { return 0, ErrUnknown }

// TotalMemory is not told.
func TotalMemory() (int64, error) { return 0, ErrUnknown }

// ResidentBytes is not told.
func ResidentBytes() (int64, error) { return 0, ErrUnknown }

// AnonymousBytes is ResidentBytes: what is the contents of files is not told.
func AnonymousBytes() (int64, error) { return ResidentBytes() }

// UsageNow is not told.
func UsageNow() (Usage, error) { return Usage{}, ErrUnknown }

// UsageOf is not told.
func UsageOf(*os.ProcessState) Usage { return Usage{} }

// FreeDiskBytes is not told: a full disk shows when it is written to.
func FreeDiskBytes(string) (int64, error) { return math.MaxInt64, nil }

// DeviceBytes is not told.
func DeviceBytes(fs.FileInfo) int64 { return -1 }
