package host

import (
	"fmt"
	"strings"
	"sync"

	"github.com/les-project/les/cgo/verify"
)

// drafts are the drafters of the process, of whatever model. From the first
// streamed model's context to the last one's end, package verify decides how much
// of a draft is verified.
var drafts struct {
	sync.Mutex
	models int
}

func beginDrafts(experts verify.Experts) {
	drafts.Lock()
	defer drafts.Unlock()
	if drafts.models++; drafts.models == 1 {
		verify.Register(experts)
	}
}

// endDrafts tells what was drafted, if anything was.
func endDrafts() {
	drafts.Lock()
	defer drafts.Unlock()
	if drafts.models--; drafts.models > 0 {
		return
	}
	verify.Unregister()
	t := verify.Stats()
	if t.Steps == 0 {
		return
	}
	var widths []string
	for width, steps := range t.Widths {
		if steps > 0 {
			widths = append(widths, fmt.Sprintf("%d: %d", width, steps))
		}
	}
	logf(levelInfo, "drafts: %d tokens in %d steps, %d verified, %d accepted; steps by verified tokens: %s",
		t.Drafted, t.Steps, t.Verified, t.Accepted, strings.Join(widths, ", "))
}
