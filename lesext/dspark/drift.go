package dspark

import "math"

const (
	// driftStep is how much of a difference between the time of a step and what is
	// usual for its width is taken for the machine's.
	driftStep = 1.0 / 24
	// driftSteps must be known of a width before its steps tell of the machine.
	driftSteps = 3
	// driftMost is the most one step may say.
	driftMost = 3
)

// drift is how much slower than usual the machine is at present: other programs,
// heat, a cache that fills change all widths alike, while widths have their turns
// at different times. Times are compared without it.
type drift struct{ log float64 }

// remove gives a time as it would usually be.
func (d *drift) remove(ns int64) int64 { return int64(float64(ns) * math.Exp(-d.log)) }

// observe compares a time, with the drift in it, with the usual one.
func (d *drift) observe(ns int64, usual float64) {
	if ns <= 0 || usual <= 0 {
		return
	}
	error := math.Log(float64(ns)/usual) - d.log
	d.log += driftStep * max(-math.Log(driftMost), min(math.Log(driftMost), error))
}
