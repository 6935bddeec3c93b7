package cores

import "testing"

// of makes cores from pairs of a number and a speed.
func of(pairs ...int64) []Core {
	var list []Core
	for i := 0; i < len(pairs); i += 2 {
		for range pairs[i] {
			list = append(list, Core{ID: len(list), Speed: pairs[i+1]})
		}
	}
	return list
}

func TestSlowCoresDoNotCompute(t *testing.T) {
	cases := map[string]struct {
		cores   []Core
		threads int
	}{
		"all alike":                     {of(16, 1024), 16},
		"of unknown speed":              {of(8, 0), 8},
		"one big, three middle, small":  {of(1, 1024, 3, 790, 4, 250), 4},
		"two big, six small":            {of(2, 1024, 6, 380), 2},
		"two of the fastest, no small":  {of(2, 1024, 6, 750), 8},
		"performance and efficiency":    {of(4, performance, 4, efficiency), 4},
		"by frequency, all fast enough": {of(8, 5_200_000, 8, 4_000_000), 16},
		"exactly half":                  {of(1, 100, 1, 50), 2},
		"one":                           {of(1, 1024), 1},
		"none":                          {nil, 1},
	}
	for name, c := range cases {
		if got := Choose(c.cores).Threads; got != c.threads {
			t.Errorf("%s: %d threads, not %d", name, got, c.threads)
		}
	}
}

const (
	performance = 100
	efficiency  = 40
)

func TestThisMachineHasCores(t *testing.T) {
	list := List()
	if s := Choose(list); s.Threads < 1 || s.Threads > len(list) || s.Lanes < 1 {
		t.Errorf("%d threads for %+v", s.Threads, list)
	}
}
