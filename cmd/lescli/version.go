package main

import (
	"fmt"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version of the llama.cpp in use",
		Action: func(c *cli.Context) error {
			fmt.Fprintf(c.App.Writer, "lescli with llama.cpp %s\n", llama.Version())
			return nil
		},
	}
}
