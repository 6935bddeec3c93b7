package dspark

const (
	// hopelessTokens is what drafting may lose, in plain tokens, before it is given
	// up where it cannot pay even if all that is not known is favourable: at best
	// noHope of a plain step's rate. One token is two percent of an answer of 48.
	hopelessTokens = 0.5
	// hopelessSteps in a row that verify nothing come before that: what is drafted
	// beside them tells more of the drafter.
	hopelessSteps = 8
	noHope        = 0.98
	// limitTokens is the same where it may pay but did not; limitAnyway times as
	// much ends it in any case.
	limitTokens = 8
	limitAnyway = 2
	// clearlyWorse than plain steps, in what was reached, needs no estimate.
	clearlyWorse = 0.94
	// probeTokens is limitTokens for a probe: with a rest of restFirst tokens or more
	// before it, it costs two percent at most.
	probeTokens = 5
	// restFirst plain tokens pass before the first probe, restGrowth times as many
	// before each next one, up to restMax.
	restFirst  = 320
	restGrowth = 2
	restMax    = 8192
	// idleSteps in a row that verify nothing, because nothing is worth it, end
	// drafting too: the drafter need not follow then.
	idleSteps = 48
	// settled is how many drafted steps make a probe a success.
	settled = 64
	// keepRate makes a drafted step of 44 steps ago count half.
	keepRate = 1 - 1.0/64
	// rateSteps must have been seen before their rate counts.
	rateSteps = 24
)

// mode is whether drafts are made: an account of what they lose against plain
// steps switches them off, a rest of plain tokens on again.
//
//	drafting -> resting    when the account is above its limit
//	resting  -> drafting   after the rest: a probe
//
// INVARIANT: between two rests drafting loses at most limitAnyway*limitTokens
// plain tokens and one step; a probe limitAnyway*probeTokens and one step.
type mode struct {
	on      bool
	began   bool    // with the last step a probe began
	probing bool    // not settled since the last rest
	drafted int     // steps since the last rest
	wide    int     // steps with drafted tokens in a row
	idle    int     // steps that verified nothing, the last ones in a row
	lost    float64 // nanoseconds, since the last rest, against plain steps
	rest    int     // tokens until the next probe
	length  int     // of the next rest
	tokens  mean    // a drafted step
	times   mean    // of a drafted step
}

func newMode() mode { return mode{on: true, length: restFirst} }

// verdict is what a step says about drafting.
type verdict struct {
	step  Step
	plain float64 // nanoseconds of a plain step
	known bool    // that time was measured
	hope  float64 // best rate if all that is not known is favourable
}

func (m *mode) observe(v verdict) {
	m.began = false
	tokens := 1 + v.step.Accepted
	if !m.on {
		if m.rest -= tokens; m.rest <= 0 {
			m.on, m.began, m.probing, m.drafted, m.wide, m.idle, m.lost = true, true, true, 0, 0, 0, 0
			m.tokens, m.times = mean{}, mean{}
		}
		return
	}
	if !v.known {
		return
	}
	took := float64(v.step.StepNS + v.step.DraftNS)
	m.drafted++
	if m.wide++; v.step.Verified == 0 {
		m.wide = 0
	}
	m.tokens.add(float64(tokens), keepRate)
	m.times.add(min(took, outlier*float64(1+v.step.Verified)*v.plain), keepRate)
	limit := m.limit() * v.plain
	m.lost = max(-limit, m.lost+min(limit, took-float64(tokens)*v.plain))
	if m.idle++; v.step.Verified > 0 {
		m.idle = 0
	}
	hopeless := v.hope <= noHope/v.plain
	worse := m.times.all >= rateSteps && m.rate() < clearlyWorse/v.plain
	switch {
	case hopeless && m.idle >= hopelessSteps && m.lost > hopelessTokens*v.plain,
		worse && m.lost > limit, m.lost > limitAnyway*limit, m.idle >= idleSteps:
		m.on, m.rest = false, m.length
		m.length = min(restMax, restGrowth*m.length)
	case m.probing && m.drafted >= settled:
		m.probing, m.length = false, restFirst
	}
}

// limit is what may be lost before drafting is given up, in plain tokens.
func (m *mode) limit() float64 {
	if m.probing {
		return probeTokens
	}
	return limitTokens
}

// rate is the tokens a nanosecond reached while drafting; 0 before enough steps.
func (m *mode) rate() float64 {
	if m.times.all < rateSteps || m.times.sum <= 0 {
		return 0
	}
	return m.tokens.sum / m.times.sum
}
