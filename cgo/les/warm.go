package les

import (
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
)

// Warm reads experts in the background into slots that are empty, the first ones
// first, while nothing else is to be read.
func (e *Engine) Warm(keys []expert.Key) { e.sched.Warm(keys) }

// Hot returns up to n experts that were used since Open, most used first.
func (e *Engine) Hot(n int) []sched.Use { return e.sched.Hot(n) }
