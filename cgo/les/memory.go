package les

/*
#include "les-fit.h"
#include "les-option.h"
*/
import "C"

import (
	"fmt"
	"strings"
)

// budgetShare is the part of the free memory that is planned for by default;
// the rest is left to the page tables, the Go runtime and other programs.
const budgetShare = C.LES_BUDGET_SHARE

// MemoryAvailable is what can be used without swapping, within the limits of the
// control groups; 0 where the system does not tell.
func MemoryAvailable() int64 { return int64(C.les_memory_available()) }

// MemoryGroupLimit is the least limit of the control groups of this process; 0
// where there is none.
func MemoryGroupLimit() int64 { return int64(C.les_memory_group_limit()) }

// BudgetOf is the budget when none is given, for so much memory.
func BudgetOf(available int64) int64 { return int64(budgetShare * float64(available)) }

// BudgetPercent is the part that BudgetOf takes.
func BudgetPercent() int { return int(100 * budgetShare) }

// ParseSize reads a size such as 4G, 512M, 1.5GiB or 1048576; units are powers of
// 1024.
func ParseSize(text string) (int64, error) {
	var status C.int32_t = -1
	var bytes C.int64_t
	if strings.IndexByte(text, 0) < 0 {
		withCString(text, func(text *C.char) { status = C.les_parse_size(text, &bytes) })
	}
	switch status {
	case 0:
		return int64(bytes), nil
	case -2:
		return 0, fmt.Errorf("%q must be more than zero", text)
	case -3:
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return 0, fmt.Errorf("%q is not a size like 4G, 512M or 1048576", text)
}
