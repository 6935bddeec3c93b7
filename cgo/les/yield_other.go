//go:build !linux

package les

// yieldThread does nothing where threads have no priority of their own.
func yieldThread() {}
