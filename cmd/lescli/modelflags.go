package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/cores"
)

// defaultModel is the reference model that comes with the project, and
// modelVariable the environment variable that names another.
const (
	defaultModel  = "models/les-ref.gguf"
	modelVariable = "LES_MODEL"
)

// Flags that several commands share.
func modelFlag() cli.Flag {
	return &cli.StringFlag{Name: "model", Aliases: []string{"m"}, Usage: "model file, the first part if it is split (default: $" + modelVariable + " or " + defaultModel + ")"}
}

func adapterFlag() cli.Flag {
	return &cli.StringFlag{Name: "lora", Usage: "LoRA adapter (GGUF) applied at full strength; adapters of experts stay resident"}
}

func ctxFlag() cli.Flag {
	return &cli.IntFlag{Name: "ctx", Aliases: []string{"c"}, Value: 4096, Usage: "context length in tokens; without it, no more than the model was trained for"}
}

func threadsFlag() cli.Flag {
	return &cli.IntFlag{Name: "threads", Aliases: []string{"t"}, Value: fastCores(), Usage: "compute threads; without it, one for each core that is not much slower than the fastest"}
}

// fastCores is how many cores compute by default.
func fastCores() int { return cores.Choose(cores.List()).Threads }

func ubatchFlag() cli.Flag {
	return &cli.IntFlag{Name: "ubatch", Aliases: []string{"ub"}, Value: 512, Usage: "tokens of a prompt computed at once"}
}

// checkFlagsNamed refuses flags that are given with nothing for a value.
func checkFlagsNamed(c *cli.Context, flags ...string) error {
	for _, flag := range flags {
		if c.IsSet(flag) && c.String(flag) == "" {
			return usagef("%s is empty", flagName(c, flag))
		}
	}
	return nil
}

// flagName is a flag with its short name, which may be the one that was typed.
func flagName(c *cli.Context, name string) string {
	for _, flag := range c.Command.Flags {
		if names := flag.Names(); names[0] == name && len(names) > 1 {
			return fmt.Sprintf("%s (%s)", dashed(name), dashed(names[1]))
		}
	}
	return dashed(name)
}

// countsMax keeps counts from wrapping where C has 32 bits; threadsMax is
// ggml's own limit; of layers ahead, the next one's router is all that is asked.
const (
	countsMax    = 1 << 30
	threadsMax   = 512
	lookaheadMax = 1
)

func countMax(flag string) int {
	switch flag {
	case "ctx":
		return contextTokensMax
	case "threads":
		return threadsMax
	case "les-lookahead":
		return lookaheadMax
	case "seqs":
		return llama.SeqsMax()
	}
	return countsMax
}

// checkCounts refuses flags that must be positive numbers and are not.
func checkCounts(c *cli.Context, names ...string) error {
	for _, name := range names {
		if c.Int(name) <= 0 {
			return usagef("%s: %d must be more than zero", flagName(c, name), c.Int(name))
		}
		if most := countMax(name); c.Int(name) > most {
			return usagef("%s: %d is more than %d", flagName(c, name), c.Int(name), most)
		}
	}
	return nil
}

// modelPath is the model asked for, or the reference model: from the
// environment, beside the build directory, or in the working directory.
func modelPath(c *cli.Context) (string, error) {
	if c.IsSet("model") {
		if c.String("model") == "" {
			return "", usagef("--model (-m) is empty")
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
	return "", usagef("--model (-m) is missing, and the reference model %s is neither here nor beside the program; "+
		"give a GGUF file, or name one in $%s, or run from the folder of the project", defaultModel, modelVariable)
}

func announce(out io.Writer, path, origin string) {
	fmt.Fprintf(out, "model: %s (%s)\n", path, origin)
}
