package les

/*
#include "les.h"
*/
import "C"

import (
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/plan"
	"github.com/les-project/les/lesext/system"
)

// SlotSpanBytes is what one span takes in a slot, by the rule with which Seal
// lays out slots.
func SlotSpanBytes(s expert.Span) int64 {
	return int64(C.les_span_slot_bytes(C.uint64_t(s.Off), C.uint64_t(s.Stride), C.uint64_t(s.Bytes)))
}

// measured adds what the process of a loaded model holds besides, which is no less
// than is known of other models. Dense weights and the cache are in memory already;
// graph buffers are not touched before the first step.
func measured(usage plan.Usage) plan.Usage {
	usage.Process = max(usage.Process, ResidentBytes()-usage.Dense-usage.KV)
	return usage
}

// ResidentBytes is the memory that the process holds now; 0 where the system
// does not tell.
func ResidentBytes() int64 {
	bytes, _ := system.ResidentBytes()
	return bytes
}

// AnonymousBytes is what of it is not the contents of files.
func AnonymousBytes() int64 {
	bytes, _ := system.AnonymousBytes()
	return bytes
}
