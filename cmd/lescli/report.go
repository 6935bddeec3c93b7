package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

func jsonFlag() cli.Flag {
	return &cli.StringFlag{Name: "json", Usage: "write the report to this file"}
}

// checkReport refuses, before the work is done, a report file that could not
// be written after it.
func checkReport(c *cli.Context) error {
	name := c.String("json")
	if name == "" {
		return nil
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("--json: %s is a directory", name)
	}
	info, err := os.Stat(filepath.Dir(name))
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("--json: %s is not a directory", filepath.Dir(name))
	}
	return nil
}

// printJSON writes a report to a stream.
func printJSON(out io.Writer, report any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// writeJSON writes a report under a temporary name and renames it, so that no
// half-written report is ever seen. A link is followed, and what is no regular
// file, such as a device or a pipe, is written to as it is.
func writeJSON(name string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeInto(name, text)
	}
	return replaceFile(name, text)
}

// writeInto writes to something that exists and stays what it is.
func writeInto(name string, text []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return nil
}

func replaceFile(name string, text []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	if _, err = file.Write(text); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if err = file.Chmod(0o644); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	if err = file.Close(); err != nil {
		return fmt.Errorf("--json: %w", err)
	}
	return os.Rename(file.Name(), name)
}
