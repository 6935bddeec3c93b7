package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The folders that the tests use. Programs and libraries are where
// scripts/build.sh puts them.
const (
	root  = "../.."
	model = root + "/models/les-ref.gguf"
)

func binDir(t *testing.T) string {
	t.Helper()
	build := os.Getenv("LES_BUILD_DIR")
	if build == "" {
		build = filepath.Join(root, "build")
	}
	dir, err := filepath.Abs(filepath.Join(build, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// compile builds a C program of testdata against llama.cpp's headers in these
// folders.
func compile(t *testing.T, source string, include ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), ".c"))
	bin := binDir(t)
	args := []string{"-O1", "-Wall", "-Wextra", "-Werror", "-o", out, source}
	for _, dir := range include {
		args = append(args, "-I"+dir)
	}
	args = append(args, "-L"+bin, "-Wl,--as-needed", "-llesext", "-lllama", "-lggml", "-lggml-base", "-Wl,-rpath,"+bin)
	if text, err := exec.Command("cc", args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return out
}

// headers are those of the llama.cpp that was built.
func headers() []string {
	return []string{root + "/llama/llama.cpp/include", root + "/llama/llama.cpp/ggml/include"}
}

// result is what a program left behind.
type result struct {
	stdout, stderr string
	code           int
}

// run runs a program with variables of LES in its environment, and no others.
func run(t *testing.T, variables []string, name string, args ...string) result {
	t.Helper()
	cmd := exec.Command(name, args...)
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "LES=") && !strings.HasPrefix(entry, "LES_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// succeed runs a program that must end well.
func succeed(t *testing.T, variables []string, name string, args ...string) result {
	t.Helper()
	r := run(t, variables, name, args...)
	if r.code != 0 {
		t.Fatalf("%s %s: exit code %d: %s", name, strings.Join(args, " "), r.code, r.stderr)
	}
	return r
}
