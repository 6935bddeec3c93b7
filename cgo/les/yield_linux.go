package les

import "golang.org/x/sys/unix"

// yieldThread gives the calling thread the lowest priority. Where the system
// refuses, it keeps the one it has.
func yieldThread() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 19) }
