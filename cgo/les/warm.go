package les

import (
	"github.com/les-project/les/lesext/expert"
	"github.com/les-project/les/lesext/sched"
)

// Warm reads experts in the background into slots that are empty, the first ones
// first, while nothing else is to be read.
// Where there is a slot for each expert, all others follow.
func (e *Engine) Warm(keys []expert.Key) {
	if p := e.Plan(); p.SlotCount == p.All {
		keys = append(keys[:len(keys):len(keys)], othersThan(keys, e.streamed.geometry)...)
	}
	e.sched.Warm(keys)
}

// othersThan lists the experts that are not among the given ones, layer by layer.
func othersThan(keys []expert.Key, g expert.Geometry) (others []expert.Key) {
	given := make(map[expert.Key]bool, len(keys))
	for _, k := range keys {
		given[k] = true
	}
	for layer, l := range g.Layers {
		for id := range l.Experts {
			if k := (expert.Key{Layer: int32(layer), ID: int32(id)}); !given[k] {
				others = append(others, k)
			}
		}
	}
	return others
}

// Idle reports whether there is nothing left to read, in the background or not.
func (e *Engine) Idle() bool { return e.sched.Idle() }

// Hot returns up to n experts that were used since Open, most used first.
func (e *Engine) Hot(n int) []sched.Use { return e.sched.Hot(n) }
