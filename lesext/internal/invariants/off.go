//go:build !invariants

// Package invariants says whether a build carries the expensive assertions:
// consistency walks, poisoned slots, pair checks. It holds one constant, so
// that the compiler removes every check from an ordinary build.
package invariants

// Enabled reports whether the expensive assertions are compiled in.
const Enabled = false
