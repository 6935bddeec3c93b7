// Package lesext is the root of the library that decides which experts are in
// memory. It has no code of its own; these are its packages:
//
//	expert   names of experts, and where their bytes lie
//	slot     the pool of expert slots and the eviction policies
//	readq    the queue of reads, the lanes and the readers of model files
//	predict  statistics of the lookahead
//	tune     choosing between settings by the time of tokens
//	sched    routed sets and guesses to hits, joins and reads
//	trace    files of recorded routes
//	sim      recorded routes through policies, and the scheduler on a virtual clock
//	warm     files that say what was hot
//	outfile  files that are written whole or not at all
//	plan     how the memory of a process is divided
//	probe    how fast a file can be read, and what that implies
//	dspark   how many drafted tokens a step verifies
//	layout   where the bytes of a rewritten file lie
//
// What must always hold, where it is asserted, and the test that names it:
//
//	I1   a slot is in exactly one state          slot.Table      TestSlotGoesThroughItsStates
//	I2   a pinned slot is not evicted or written slot.Table      TestPinnedSlotIsNeverEvicted
//	I3   demand never waits behind a prefetch    readq.Queue     TestDemandOvertakesPrefetch
//	I4   one read in flight per run of an expert readq.Queue     TestOneReadInFlightPerExpert
//	I5   a ready bit follows its bytes           sched           TestEveryByteIsRightAtUse
//	I6   a prefetch never changes a byte in use  slot, sched     TestEveryByteIsRightAtUse
//	I8   hits + joins + misses = lookups         sched.Stats     TestCountersAddUp
//	I9   issued = useful + wasted + pending      sched.Stats     TestCountersAddUp
//	I10  no allocation in the token path         all             TestNoAllocationInSteadyState
//
// I7, the memory budget, belongs to whoever allocates the arena: sched takes no
// memory for expert bytes beyond it, and refuses one of the wrong size.
//
// Builds with the tag invariants walk more state after each change and poison
// every slot before it is filled.
package lesext
