package outfile

import "os"

// lock has nothing to do: a file that is open is not removed.
func lock(*os.File) {}

// sweepOne removes a file that no program has open.
func sweepOne(path string) { os.Remove(path) }
