//go:build !linux && !darwin

package cores

import "runtime"

// List returns cores of which nothing is known.
func List() []Core { return alike(runtime.NumCPU()) }
