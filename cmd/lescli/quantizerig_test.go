package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// referenceModel and heldOut come with the project.
const (
	referenceModel = "../../models/les-ref.gguf"
	heldOut        = "../../models/heldout.txt"
)

// upstreamTool is one of llama.cpp's programs.
func upstreamTool(t *testing.T, name string) string {
	t.Helper()
	build := os.Getenv("LES_BUILD_DIR")
	if build == "" {
		build = filepath.Join("..", "..", "build")
	}
	tool := filepath.Join(build, "bin", name)
	if runtime.GOOS == "windows" {
		tool += ".exe"
	}
	if _, err := os.Stat(tool); err != nil {
		if tool, err = exec.LookPath(name); err != nil {
			t.Skip(name + " is neither built nor installed")
		}
	}
	return tool
}

// quantized writes a model anew and returns its path and the summary.
func quantized(t *testing.T, model string, flags ...string) (out, summary string) {
	t.Helper()
	out = filepath.Join(t.TempDir(), "quantized.gguf")
	stdout, stderr, code := lescli(append([]string{"quantize", model, out}, flags...)...)
	if code != exitOK || !strings.Contains(stderr, "wrote "+out) {
		t.Fatalf("%v: exit code %d: %s", flags, code, stderr)
	}
	return out, stdout
}

// sourceModel is a small model to quantise.
func sourceModel(t *testing.T, preset string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), preset+".gguf")
	if _, stderr, code := lescli("synth", path, "--preset", preset, "--experts", "q8_0"); code != exitOK {
		t.Fatalf("synth: %s", stderr)
	}
	return path
}

// tinyImatrix collects a little of importance data.
func tinyImatrix(t *testing.T, model string, flags ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "imatrix.gguf")
	_, stderr, code := lescli(append([]string{"imatrix", "-m", model, "-f", heldOut, "-o", out, "-c", "128", "--chunks", "2"}, flags...)...)
	if code != exitOK {
		t.Fatalf("imatrix: exit code %d: %s", code, stderr)
	}
	return out
}
