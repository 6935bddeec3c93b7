package main

import (
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

// What the program was built from, set by scripts/go.sh: its commit, behind which
// "+changes" stands where files were changed since, the version of llama.cpp that is
// pinned, and the number of patches on it.
var (
	commit   = "unknown"
	upstream = "unknown"
	patches  = "unknown"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print what the program was built from",
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return usagef("version: unexpected argument %q", c.Args().First())
			}
			printVersion(c.App.Writer)
			return nil
		},
	}
}

func printVersion(out io.Writer) {
	fmt.Fprintf(out, "lescli     commit %s, %s, %s/%s\n", commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(out, "llama.cpp  %s, pinned %s, patches %s\n", llama.Version(), upstream, patches)
	fmt.Fprintf(out, "backends   %s\n", strings.Trim(strings.TrimSpace(llama.SystemInfo()), "| "))
}
