package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/les-project/les/lesext/outfile"
	"github.com/urfave/cli/v2"
)

func jsonFlag() cli.Flag {
	return &cli.StringFlag{Name: "json", Usage: "write the report to this file"}
}

// checkReport refuses, before the work is done, report files that could not be
// written after it.
func checkReport(c *cli.Context) error {
	for _, flag := range []string{"json", "html"} {
		name := c.String(flag)
		if err := checkFlagsNamed(c, flag); err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			return fmt.Errorf("--%s: %s is a directory", flag, name)
		}
		if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
			continue
		}
		if _, err := checkReplaceable(flag, finalName(name), outfile.Kind{Magic: reportBegin[flag], Name: "a report"}); err != nil {
			return err
		}
	}
	return checkApart(c, "json", "html", warmFlagName)
}

// checkApart refuses two outputs in one file: only the last to be written would be
// left of them.
func checkApart(c *cli.Context, flags ...string) error {
	taken := map[string]string{} // flags by the file
	for _, flag := range flags {
		if c.String(flag) == "" {
			continue
		}
		name := finalName(c.String(flag))
		if other, ok := taken[name]; ok {
			return usagef("--%s and --%s contradict: both name the file %s", other, flag, c.String(other))
		}
		taken[name] = flag
	}
	return nil
}

// reportBegin is how the reports of each flag begin. A file that begins in
// another way, a model for one, is not replaced by them.
var reportBegin = map[string]string{"json": "{", "html": "<!DOCTYPE html>"}

// finalName is the name by which a file that may not be there is told from
// others: absolute, without links.
func finalName(name string) string {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	} else if dir, err := filepath.EvalSymlinks(filepath.Dir(name)); err == nil {
		name = filepath.Join(dir, filepath.Base(name))
	}
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	return name
}

// printJSON writes a report to a stream.
func printJSON(out io.Writer, report any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// writeJSON writes a report as JSON.
func writeJSON(name string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	return writeReport("json", name, append(text, '\n'))
}

// writeReport writes a report under a temporary name and renames it, so that no
// half-written report is ever seen. A link is followed, and what is no regular
// file, such as a device or a pipe, is written to as it is.
func writeReport(flag, name string, text []byte) error {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeInto(flag, name, text)
	}
	part, err := createPart(flag, name)
	if err != nil {
		return err
	}
	if _, err = part.Write(text); err != nil {
		part.Discard()
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return part.commit()
}

// writeInto writes to something that exists and stays what it is.
func writeInto(flag, name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err == nil {
		_, err = file.Write(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}
