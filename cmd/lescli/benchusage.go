package main

import "github.com/les-project/les/lesext/system"

// processUsage is what the system counts for a process: all of its threads,
// those that read included.
type processUsage struct {
	UserNS, SystemNS                  int64 // processor time
	MajorFaults, MinorFaults          int64 // pages that were read, and those that only had to be mapped
	VoluntarySwitches, ForcedSwitches int64 // threads that waited, and those that were interrupted
}

// usageNow is all that this process has used. It is zero where the system does
// not tell.
func usageNow() processUsage {
	usage, _ := system.UsageNow()
	return processUsage{
		UserNS: usage.UserNS, SystemNS: usage.SystemNS,
		MajorFaults: usage.MajorFaults, MinorFaults: usage.MinorFaults,
		VoluntarySwitches: usage.VoluntarySwitches, ForcedSwitches: usage.ForcedSwitches,
	}
}

func (u processUsage) plus(v processUsage) processUsage {
	return processUsage{
		UserNS: u.UserNS + v.UserNS, SystemNS: u.SystemNS + v.SystemNS,
		MajorFaults: u.MajorFaults + v.MajorFaults, MinorFaults: u.MinorFaults + v.MinorFaults,
		VoluntarySwitches: u.VoluntarySwitches + v.VoluntarySwitches, ForcedSwitches: u.ForcedSwitches + v.ForcedSwitches,
	}
}

func (u processUsage) minus(v processUsage) processUsage {
	return u.plus(processUsage{
		-v.UserNS, -v.SystemNS, -v.MajorFaults, -v.MinorFaults, -v.VoluntarySwitches, -v.ForcedSwitches,
	})
}
