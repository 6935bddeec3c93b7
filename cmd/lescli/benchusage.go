package main

import "syscall"

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
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return processUsage{}
	}
	return processUsage{
		UserNS: usage.Utime.Nano(), SystemNS: usage.Stime.Nano(),
		MajorFaults: int64(usage.Majflt), MinorFaults: int64(usage.Minflt),
		VoluntarySwitches: int64(usage.Nvcsw), ForcedSwitches: int64(usage.Nivcsw),
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
