// Package verify puts the controller of lesext/dspark in charge of llama.cpp's
// own drafters (common/speculative.h), in whatever program they run: it decides
// for each step how many drafted tokens are verified, and whether any are
// drafted. lescli does not need it: its steps are its own.
//
// Each sequence of a drafter has a controller. Controllers are kept as long as
// the registration; C calls in the order of les-verify.h, one sequence at a time.
package verify

/*
#cgo CFLAGS: -I${SRCDIR}/../les/csrc
#cgo LDFLAGS: -L${SRCDIR}/../../build/bin -lggml-base -Wl,-rpath,$ORIGIN -Wl,-rpath,${SRCDIR}/../../build/bin
#include "bridge.h"
*/
import "C"

import (
	"sync"

	"github.com/les-project/les/lesext/dspark"
)

// Experts are those of the model whose drafts are verified: of a layer, and of
// them those that a token uses; zero where nothing is streamed. They give the
// first guess of what a wider step costs.
type Experts struct{ All, Used int }

// control is the only registration there is.
var control struct {
	sync.Mutex // guards all below; never held while C runs
	experts    Experts
	sequences  [C.LES_VERIFY_MAX_SEQS]*dspark.Controller
	gone       Totals // of sequences whose place another one has
}

// Register takes charge of all drafters of the process. A second call begins
// anew. No program may be drafting meanwhile.
func Register(experts Experts) {
	control.Lock()
	control.experts = experts
	clear(control.sequences[:])
	control.gone = Totals{}
	control.Unlock()
	C.les_bridge_verify(true)
}

// Unregister leaves drafters to themselves.
func Unregister() { C.les_bridge_verify(false) }

// Totals are the counts of all sequences since Register.
type Totals struct {
	Steps, Drafted, Verified, Accepted int64
	// Widths counts steps by verified tokens.
	Widths [dspark.WidthMax + 1]int64
}

// Stats are the counts since Register.
func Stats() (sum Totals) {
	control.Lock()
	defer control.Unlock()
	sum = control.gone
	for _, c := range control.sequences {
		if c != nil {
			sum.add(c.Stats())
		}
	}
	return sum
}

func (t *Totals) add(s dspark.Stats) {
	t.Steps += s.Steps
	t.Drafted += s.Drafted
	t.Verified += s.Verified
	t.Accepted += s.Accepted
	for width, w := range s.Widths {
		t.Widths[width] += w.Steps
	}
}
