package main

import (
	"fmt"

	"github.com/les-project/les/cgo/les"
)

// parseSize reads a positive size such as 4G, 512M, 1.5GiB or 1048576. Units
// are powers of 1024.
func parseSize(flag, text string) (int64, error) {
	bytes, err := les.ParseSize(text)
	if err != nil {
		return 0, usagef("--%s: %w", flag, err)
	}
	return bytes, nil
}

// formatSize prints bytes in the largest unit that keeps one digit before the
// point.
func formatSize(bytes int64) string {
	const units = "KMGT"
	if bytes < 1<<10 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/(1<<10), 0
	for value >= 1024 && unit < len(units)-1 {
		value /= 1024
		unit++
	}
	return fmt.Sprintf("%.2f %ciB", value, units[unit])
}
