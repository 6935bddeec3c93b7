//go:build !(linux || darwin || freebsd || windows)

package outfile

import "os"

func lock(*os.File) {}

// sweepOne lets every file be: there is nothing to tell by whether it is being written.
func sweepOne(string) {}
