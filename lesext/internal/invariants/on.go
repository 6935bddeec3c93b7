//go:build invariants

package invariants

// Enabled reports whether the expensive assertions are compiled in.
const Enabled = true
