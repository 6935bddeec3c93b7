package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sizeUnits are powers of 1024; a bare number is bytes.
var sizeUnits = map[string]int64{
	"": 1, "B": 1,
	"K": 1 << 10, "KB": 1 << 10, "KIB": 1 << 10,
	"M": 1 << 20, "MB": 1 << 20, "MIB": 1 << 20,
	"G": 1 << 30, "GB": 1 << 30, "GIB": 1 << 30,
	"T": 1 << 40, "TB": 1 << 40, "TIB": 1 << 40,
}

// parseSize reads a positive size such as 4G, 512M, 1.5GiB or 1048576. Units
// are powers of 1024.
func parseSize(flag, text string) (int64, error) {
	trimmed := strings.TrimSpace(text)
	end := strings.LastIndexAny(trimmed, "0123456789.") + 1
	unit, known := sizeUnits[strings.ToUpper(strings.TrimSpace(trimmed[end:]))]
	number, err := strconv.ParseFloat(trimmed[:end], 64)
	plain := strings.Trim(trimmed[:end], "-0123456789.") == "" // no exponents, no hexadecimal
	if err != nil || !known || !plain {
		return 0, usagef("--%s: %q is not a size like 4G, 512M or 1048576", flag, text)
	}
	if number <= 0 {
		return 0, usagef("--%s: %q must be more than zero", flag, text)
	}
	bytes := number * float64(unit)
	if bytes < 1 || bytes >= math.MaxInt64 {
		return 0, usagef("--%s: %q is out of range", flag, text)
	}
	return int64(bytes), nil
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
