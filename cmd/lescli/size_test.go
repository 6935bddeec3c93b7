package main

import "testing"

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "4096": 4096, "1B": 1, "2k": 2048, "512M": 512 << 20, "4G": 4 << 30, "4GB": 4 << 30,
		"4GiB": 4 << 30, "1.5g": 3 << 29, " 8 G ": 8 << 30, "1T": 1 << 40, "0.5K": 512,
	} {
		if got, err := parseSize("f", text); err != nil || got != want {
			t.Errorf("%q is %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "G", "0", "0G", "-1", "-4G", "4X", "4GG", "1e3", "0x10", "1..5G", "NaN", "Inf", "9999999999T", "0.1", "G4", "4 4G",
	} {
		if got, err := parseSize("f", text); err == nil {
			t.Errorf("%q is taken as %d", text, got)
		}
	}
}

func TestSizesArePrintedShortly(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536 << 20: "1.50 GiB", 1 << 50: "1024.00 TiB",
	} {
		if got := formatSize(bytes); got != want {
			t.Errorf("%d is %q, want %q", bytes, got, want)
		}
	}
}
