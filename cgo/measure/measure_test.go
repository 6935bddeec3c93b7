package measure

import (
	"strings"
	"testing"
)

func TestWhatIsNoNumberIsRefused(t *testing.T) {
	const pattern = `PPL = (\S+) (\S+)`
	var value, margin float64
	if err := find("PPL = 1.5 0.25", pattern, &value, &margin); err != nil || value != 1.5 || margin != 0.25 {
		t.Errorf("%v and %v: %v", value, margin, err)
	}
	for _, text := range []string{"nan", "-nan", "inf", "-inf", "1e999", "x"} {
		if err := find("PPL = 1.5 "+text, pattern, &value, &margin); err == nil || !strings.Contains(err.Error(), text+" is not a number") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTextWithNULByteIsRefused(t *testing.T) {
	r := Run{Text: "cut\x00here", TextName: "text.txt"}
	if _, _, err := r.call(nil); err == nil || err.Error() != `text.txt: a NUL byte at 3, after "cut"` {
		t.Error(err)
	}
}
