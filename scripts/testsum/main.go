// Command testsum reads the output of `go test -json` and prints what a reader
// wants of it: the output of what failed, the skips nobody expected, and one
// line of totals. It exits with 1 when either is there, or when a test binary
// did not build.
//
//	go test -json ./... | go run ./scripts/testsum -allow scripts/expected-skips.txt -totals totals.txt race
//
// With -totals, the counts are appended to a file, from which the last line of a
// run over several stages is added up.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	allowPath := flag.String("allow", "", "file of expected skips")
	totalsPath := flag.String("totals", "", "file to append the counts to")
	flag.Parse()
	clean, err := run(flag.Arg(0), *allowPath, *totalsPath)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil || !clean {
		os.Exit(1)
	}
}

// run reports whether the stage on standard input is clean: nothing failed and
// nothing was skipped unexpectedly.
func run(stage, allowPath, totalsPath string) (bool, error) {
	allowed, err := readAllowed(allowPath)
	if err != nil {
		return false, err
	}
	sum, err := summarize(os.Stdin, allowed)
	if err != nil {
		return false, err
	}
	sum.print(os.Stdout, stage)
	if totalsPath == "" {
		return sum.clean(), nil
	}
	file, err := os.OpenFile(totalsPath, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return false, err
	}
	fmt.Fprintln(file, sum.passed, len(sum.failed), sum.skipped, len(sum.unexpected))
	return sum.clean(), file.Close()
}
