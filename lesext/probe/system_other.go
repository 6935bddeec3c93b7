//go:build !linux

package probe

import "runtime"

// Inspect asks the system about a file. Little is known here.
func Inspect(string) (System, error) {
	return System{IOUring: "not on this system", Processors: runtime.NumCPU()}, nil
}

// DropCache does nothing: the system has no call for it.
func DropCache(string) error { return nil }
