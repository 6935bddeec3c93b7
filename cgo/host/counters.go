package host

/*
#include "les-host.h"
*/
import "C"

import (
	"errors"

	"github.com/les-project/les/cgo/llama"
)

// Counters are what became of the routed experts of a streamed model since its
// first context was made.
type Counters struct {
	Lookups, Hits int64
	ReadBytes     int64
}

// CountersOf asks the engine of the process, whoever it is.
func CountersOf(model *llama.Model) (Counters, error) {
	var s C.struct_les_stats
	if C.les_host_stats((*C.struct_llama_model)(model.Pointer()), &s) != 0 {
		return Counters{}, errors.New(C.GoString(C.les_host_last_error()))
	}
	return Counters{
		Lookups: int64(s.lookups), Hits: int64(s.hits),
		ReadBytes: int64(s.demand_bytes + s.prefetch_bytes + s.warm_bytes),
	}, nil
}
