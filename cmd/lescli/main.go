// Command lescli runs, inspects, verifies and synthesises Mixture-of-Experts
// models whose experts are streamed from flash.
package main

import "os"

func main() { os.Exit(realMain(os.Args, os.Stdout, os.Stderr)) }
