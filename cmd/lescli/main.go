// Command lescli runs, inspects, verifies and synthesises Mixture-of-Experts
// models whose experts are streamed from flash.
package main

import (
	"os"
	"runtime"
)

// OpenMP keeps a team of threads for every thread that computes with it, so all
// steps must come from one.
func init() { runtime.LockOSThread() }

func main() { os.Exit(realMain(os.Args, os.Stdout, os.Stderr)) }
