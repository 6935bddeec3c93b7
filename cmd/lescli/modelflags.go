package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

// defaultModel is the reference model that comes with the project, and
// modelVariable the environment variable that names another.
const (
	defaultModel  = "models/les-ref.gguf"
	modelVariable = "LES_MODEL"
)

// modelFlags are shared by the commands that load one model.
func modelFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "model file, the first part if it is split (default: $" + modelVariable + " or " + defaultModel + ")"},
		&cli.IntFlag{Name: "ctx", Aliases: []string{"c"}, Value: 4096, Usage: "context length in tokens"},
		&cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Value: runtime.NumCPU(), Usage: "compute threads"},
		&cli.IntFlag{Name: "ubatch", Aliases: []string{"ub"}, Value: 512, Usage: "tokens of a prompt computed at once"},
	}
}

// parseModel reads the shared flags.
func parseModel(c *cli.Context) (path string, params llama.ContextParams, err error) {
	for _, name := range []string{"ctx", "threads", "ubatch"} {
		if c.Int(name) <= 0 {
			return "", params, usagef("--%s: %d must be more than zero", name, c.Int(name))
		}
	}
	path, err = modelPath(c)
	return path, llama.ContextParams{
		Tokens: c.Int("ctx"), Batch: c.Int("ubatch"), Ubatch: c.Int("ubatch"), Seqs: 1, Threads: c.Int("threads"),
	}, err
}

// modelPath is the model asked for, or the reference model: from the
// environment, beside the build directory, or in the working directory.
func modelPath(c *cli.Context) (string, error) {
	if c.IsSet("model") {
		if c.String("model") == "" {
			return "", usagef("--model is empty")
		}
		return c.String("model"), nil
	}
	if path := os.Getenv(modelVariable); path != "" {
		announce(c.App.ErrWriter, path, "from $"+modelVariable)
		return path, nil
	}
	candidates := []string{defaultModel}
	if exe, err := os.Executable(); err == nil {
		candidates = append([]string{filepath.Join(filepath.Dir(exe), "..", "..", defaultModel)}, candidates...)
	}
	for _, path := range candidates {
		if _, err := os.Stat(path); err == nil {
			announce(c.App.ErrWriter, path, "the reference model")
			return path, nil
		}
	}
	return "", usagef("--model is missing, and there is no %s here or beside the program", defaultModel)
}

func announce(out io.Writer, path, origin string) {
	fmt.Fprintf(out, "model: %s (%s)\n", path, origin)
}
