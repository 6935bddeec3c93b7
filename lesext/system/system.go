// Package system asks the operating system about memory, disks and this process.
// There is one file for each system; where one does not tell, the answer is zero
// or an error that says so. It keeps nothing between calls.
package system

import "errors"

// ErrUnknown is returned where the system has no call for what is asked.
var ErrUnknown = errors.New("this system does not tell")

// Usage is what the system counts for a process: all of its threads, those that
// read included.
type Usage struct {
	UserNS, SystemNS                  int64 // processor time
	MajorFaults, MinorFaults          int64 // pages that were read, and those that only had to be mapped
	VoluntarySwitches, ForcedSwitches int64 // threads that waited, and those that were interrupted
	PeakBytes                         int64 // the most memory that was resident
}
