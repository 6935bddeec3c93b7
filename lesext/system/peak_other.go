//go:build !linux

package system

// PeakBytes is the most memory that this process had resident.
func PeakBytes() (int64, error) {
	usage, err := UsageNow()
	return usage.PeakBytes, err
}
