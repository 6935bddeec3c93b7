package dspark

const (
	// keepAccept makes a draft of 350 steps ago count half.
	keepAccept = 1 - 1.0/512
	// firstAccept and firstWeight stand for the first position before any was
	// seen; each further one begins as the one before it, with laterWeight.
	firstAccept = 0.6
	firstWeight = 2
	laterWeight = 3
	// confidenceWeight is how much a confidence itself counts beside what became
	// of others like it.
	confidenceWeight = 8
	// Confidences are put into so many bins of equal width.
	confidenceBins = 10
	// forgotten is what is left of old observations when a probe begins.
	forgotten = 0.25
	// hope and hopeWeight are a kinder prior, for the question whether drafting is
	// to be given up: that must be seen, not supposed.
	hope       = 0.95
	hopeWeight = 4
)

// share counts how often something came true, old observations less.
type share struct{ yes, all float64 }

func (s *share) add(yes bool) {
	s.all++
	if yes {
		s.yes++
	}
}

func (s *share) scale(by float64) {
	s.yes *= by
	s.all *= by
}

// estimate is the share, with a prior that counts as weight observations.
func (s share) estimate(prior, weight float64) float64 {
	return (s.yes + prior*weight) / (s.all + weight)
}

// acceptance estimates whether a drafted token is accepted when all before it
// were.
type acceptance struct {
	position []share
	bins     [confidenceBins]share
}

func newAcceptance(n int) acceptance { return acceptance{position: make([]share, n)} }

// at is the chance of position i, given that of the position before.
func (a *acceptance) at(i int, before float64) float64 {
	weight := float64(laterWeight)
	if i == 0 {
		weight = firstWeight
	}
	return a.position[i].estimate(before, weight)
}

// average puts the chance of each prefix into survival.
func (a *acceptance) average(survival []float64) {
	product, last := 1.0, firstAccept
	for i := range survival {
		last = a.at(i, last)
		product *= last
		survival[i] = product
	}
}

// hopeful is average with the kinder prior.
func (a *acceptance) hopeful(survival []float64) {
	product := 1.0
	for i := range survival {
		product *= a.position[i].estimate(hope, hopeWeight)
		survival[i] = product
	}
}

// survival puts the chance of each prefix of a draft into survival, from its
// confidences where it has any.
func (a *acceptance) survival(confidences []float32, survival []float64) {
	a.average(survival)
	product := 1.0
	for i, confidence := range confidences {
		product *= a.calibrated(confidence)
		survival[i] = product
	}
}

// calibrated is what a confidence is worth.
func (a *acceptance) calibrated(confidence float32) float64 {
	return a.bins[bin(confidence)].estimate(float64(confidence), confidenceWeight)
}

func bin(confidence float32) int {
	return max(0, min(confidenceBins-1, int(confidence*confidenceBins)))
}

// observe counts the verified positions up to the first that was refused; of
// those behind it nothing is known.
func (a *acceptance) observe(s Step, confidences []float32) {
	if s.Verified == 0 {
		return
	}
	for i := range a.position {
		a.position[i].scale(keepAccept)
	}
	for i := range a.bins {
		a.bins[i].scale(keepAccept)
	}
	for i := range min(s.Verified, s.Accepted+1) {
		a.learn(i, i < s.Accepted, confidences[min(i, len(confidences)):])
	}
}

// learn counts a position whose predecessors were right, with its confidence if
// there is one.
func (a *acceptance) learn(position int, right bool, confidences []float32) {
	a.position[position].add(right)
	if len(confidences) > 0 {
		a.bins[bin(confidences[0])].add(right)
	}
}

// forget makes old observations count less, since what is drafted now may be of
// another kind.
func (a *acceptance) forget() {
	for i := range a.position {
		a.position[i].scale(forgotten)
	}
}
