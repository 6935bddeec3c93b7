package les

/*
#include "les-fit.h"
*/
import "C"

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
