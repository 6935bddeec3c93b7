package cores

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestCapacityGoesBeforeFrequencyAndAffinityBounds(t *testing.T) {
	root := t.TempDir()
	write := func(id int, name, text string) {
		path := filepath.Join(root, fmt.Sprintf("cpu%d", id), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(0, "cpu_capacity", "250\n")
	write(0, "cpufreq/cpuinfo_max_freq", "1800000\n")
	write(1, "cpu_capacity", "1024\n")
	write(2, "cpufreq/cpuinfo_max_freq", "2800000\n")
	write(3, "cpu_capacity", "not a number\n")
	got := list(root, func(id int) bool { return id != 1 && id < 5 })
	want := []Core{{0, 250}, {2, 2800000}, {3, 0}, {4, 0}}
	if !slices.Equal(got, want) {
		t.Errorf("cores are %+v, not %+v", got, want)
	}
}
