package slot

// Max is the most slots a table may have: slot+1 must fit the upper 24 bits of
// a word.
const Max = 1<<24 - 2

// FlagFailed is the bit of a word that says that reading the expert failed.
// Bits 0 to 2 are the ready bits of the spans.
const FlagFailed = 1 << 7

// Word builds the 32-bit word that compute threads read; 0 means not in memory.
//
//	31              8   7    2   1   0
//	[   slot + 1    ][failed][ready ...]
//
// A slot of -1 with failed set says that the expert will get no slot at all.
func Word(slot int, ready uint32, failed bool) uint32 {
	w := uint32(slot+1)<<8 | ready
	if failed {
		w |= FlagFailed
	}
	return w
}
