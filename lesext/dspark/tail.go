package dspark

// tail is the end of a draft that was not verified, while all tokens before it
// were right: what the target chooses later shows what would have become of it.
type tail struct {
	tokens      []int32
	confidences []float32 // of as many, or none
	position    int       // in the draft, of the first
	at          int       // next one to be compared
}

// tails are those of the last drafts, of as many as a draft has tokens.
type tails struct {
	list []tail
	next int // to be overwritten
}

func newTails(n int) tails {
	t := tails{list: make([]tail, n)}
	for i := range t.list {
		t.list[i] = tail{tokens: make([]int32, 0, n), confidences: make([]float32, 0, n)}
	}
	return t
}

func (t *tails) drop() {
	for i := range t.list {
		t.list[i].drop()
	}
}

// observe compares the tails with the tokens of a step, and takes that of the
// step's own draft.
func (t *tails) observe(s Step, confidences []float32, a *acceptance) {
	if s.Token < 0 {
		t.drop()
		return
	}
	for i := range t.list {
		for _, token := range s.Draft[:s.Accepted] {
			t.list[i].compare(token, a)
		}
		t.list[i].compare(s.Token, a)
	}
	draft := s.Draft[:min(len(s.Draft), len(t.list))] // Verify takes no more of it either
	if s.Accepted < s.Verified || s.Verified >= len(draft) {
		return
	}
	own := &t.list[t.next]
	t.next = (t.next + 1) % len(t.list)
	own.position, own.at = s.Verified, 0
	own.tokens = append(own.tokens[:0], draft[s.Verified:]...)
	own.confidences = append(own.confidences[:0], confidences[min(s.Verified, len(confidences)):]...)
	own.compare(s.Token, a)
}

func (t *tail) drop() { t.tokens, t.at = t.tokens[:0], 0 }

// compare is the target's next token.
func (t *tail) compare(token int32, a *acceptance) {
	if len(t.tokens) == 0 {
		return
	}
	right := token == t.tokens[t.at]
	a.learn(t.position+t.at, right, t.confidences[min(t.at, len(t.confidences)):])
	if t.at++; !right || t.at == len(t.tokens) {
		t.drop()
	}
}
