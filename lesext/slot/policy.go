package slot

// Policy chooses victims. It sees only candidates: slots whose expert may be
// evicted now, neither pinned, nor being read, nor protected by a guess. Use
// counts outlive residency, so experts are given by their layer and their number
// over all layers. Time is the step given to Use; a policy has no clock and no
// lock. LFRU is the one in use; package sim has others to compare it with.
type Policy interface {
	// Use counts one use of an expert in a step of its layer. It is called while
	// the expert is no candidate.
	Use(layer, key int, step int64)
	// Add makes a slot that holds the expert a candidate.
	Add(slot, layer, key int)
	// Remove takes a slot out of the candidates.
	Remove(slot int)
	// Victim returns the candidate to evict next, or -1, while the given layer
	// is the last that has routed. It stays a candidate.
	Victim(layer int) int
}
