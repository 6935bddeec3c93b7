package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

func runCommand() *cli.Command {
	return &cli.Command{
		Name:  "run",
		Usage: "continue a prompt",
		Description: "Text goes to standard output, everything else to standard error. Ends at the end " +
			"of the text, after -n tokens, when the context is full, or at Ctrl-C.",
		Flags: append([]cli.Flag{
			modelFlag(), adapterFlag(), ctxFlag(), threadsFlag(), ubatchFlag(),
			&cli.StringFlag{Name: "prompt", Aliases: []string{"p"}, Usage: "the prompt"},
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "file with the prompt, - for standard input"},
			&cli.IntFlag{Name: "n", Value: 128, Usage: "most tokens to generate"},
			&cli.BoolFlag{Name: "chat", Usage: "put the prompt into the model's chat template"},
			&cli.Float64Flag{Name: "temp", Value: 0.8, Usage: "temperature; 0 takes the likeliest token"},
			&cli.IntFlag{Name: "top-k", Value: 40, Usage: "draw from so many likeliest tokens; 0 from all"},
			&cli.Float64Flag{Name: "top-p", Value: 0.95, Usage: "draw from the likeliest tokens of this joint probability; 1 from all"},
			&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the draws"},
			&cli.StringFlag{Name: "grammar-file", Usage: "file with a grammar (GBNF) that the answer keeps to"},
			&cli.StringFlag{Name: "json-schema", Usage: "JSON schema that the answer keeps to, or @FILE with one"},
			jsonFlag(), warmFlag(),
		}, append(draftFlags(), lesFlags()...)...),
		Action: runRun,
	}
}

// runOptions are the flags of run after parsing.
type runOptions struct {
	session sessionOptions
	prompt  string
	chat    bool
	limit   int
	sampler llama.SamplerParams
}

func runRun(c *cli.Context) error {
	opts, err := parseRun(c)
	if err != nil {
		return err
	}
	if err := opts.check(); err != nil {
		return err
	}
	// The second signal ends the program at once.
	ctx, stop := interruptible(c.Context)
	defer stop()
	context.AfterFunc(ctx, stop)

	g := &generation{out: c.App.Writer, limit: opts.limit, line: opts.session.line}
	g.watch.start()
	s, err := openSession(ctx, opts.session)
	if err != nil {
		return err
	}
	defer s.Close()
	g.session = s
	g.watch.loaded()
	s.describe(c.App.ErrWriter)

	tokens, err := promptTokens(s.model, s.tokens, opts)
	if err == nil {
		err = g.run(ctx, tokens, opts.sampler)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer)
	summary := g.summary(opts)
	summary.print(c.App.ErrWriter)
	if name := c.String("json"); name != "" {
		err = writeJSON(name, summary)
	}
	err = errors.Join(err, saveWarm(s.warm))
	if err == nil && g.stop == stopInterrupted {
		return silentError{context.Canceled}
	}
	return err
}

func parseRun(c *cli.Context) (runOptions, error) {
	opts := runOptions{chat: c.Bool("chat"), limit: c.Int("n")}
	if err := errors.Join(noArguments(c), checkCounts(c, "n", "ctx", "threads", "ubatch"), checkFlagsNamed(c, "lora"), checkReport(c)); err != nil {
		return opts, err
	}
	switch {
	case !(c.Float64("temp") >= 0):
		return opts, usagef("--temp: %g is not zero or more", c.Float64("temp"))
	case c.Int("top-k") < 0:
		return opts, usagef("--top-k: %d is negative", c.Int("top-k"))
	case !(c.Float64("top-p") > 0 && c.Float64("top-p") <= 1):
		return opts, usagef("--top-p: %g is not above 0 and at most 1", c.Float64("top-p"))
	case c.Uint64("seed") > 0xFFFFFFFE:
		return opts, usagef("--seed: %d does not fit 32 bits", c.Uint64("seed"))
	}
	les, err := parseLES(c)
	if err != nil {
		return opts, err
	}
	warmFile, err := parseWarm(c, les)
	if err != nil {
		return opts, err
	}
	drafts, err := parseDraft(c)
	if err != nil {
		return opts, err
	}
	opts.session = sessionOptions{
		draft:    drafts,
		warm:     warmFile,
		adapter:  c.String("lora"),
		les:      les,
		resident: llama.ModelParams{LoadMode: llama.LoadMap, Repack: true},
		line:     newProgressLine(c.App.ErrWriter),
		log:      c.App.ErrWriter,
		origin:   contextOriginOf(c),
	}
	opts.sampler = llama.SamplerParams{
		Temperature: c.Float64("temp"), TopK: c.Int("top-k"), TopP: c.Float64("top-p"), Seed: uint32(c.Uint64("seed")),
	}
	if opts.sampler.Grammar, err = readGrammar(c); err != nil {
		return opts, err
	}
	if opts.prompt, err = readPrompt(c); err != nil {
		return opts, err
	}
	opts.session.context = llama.ContextParams{
		Tokens: c.Int("ctx"), Batch: c.Int("ubatch"), Ubatch: c.Int("ubatch"), Seqs: 1, Outputs: 1, Threads: c.Int("threads"),
	}
	opts.session.path, err = modelPath(c)
	return opts, err
}

// readPrompt takes the prompt from exactly one place.
func readPrompt(c *cli.Context) (text string, err error) {
	from := flagName(c, "prompt")
	switch file := c.String("file"); {
	case c.IsSet("prompt") && c.IsSet("file"):
		err = usagef("--prompt (-p) and --file (-f) contradict")
	case c.IsSet("prompt"):
		text = c.String("prompt")
	case !c.IsSet("file"):
		err = usagef("--prompt (-p) or --file (-f) is missing")
	case file == "-":
		from = "standard input"
		text, err = readAllText(flagName(c, "file"), os.Stdin)
	default:
		from = flagName(c, "file") + ": " + file
		text, err = readText(flagName(c, "file"), file)
	}
	if err != nil {
		return "", err
	}
	if err := llama.CheckUTF8(text); err != nil {
		return "", fmt.Errorf("%s: %w", from, err)
	}
	return text, nil
}

// userTurn is a chat that begins with what the user says.
func userTurn(text string) []llama.Message { return []llama.Message{{Role: "user", Content: text}} }

// promptTokens formats and tokenises the prompt, and checks that it fits a context of
// so many tokens.
func promptTokens(model *llama.Model, context int, opts runOptions) ([]llama.Token, error) {
	text := opts.prompt
	if opts.chat {
		var err error
		if text, err = model.ApplyChat(userTurn(text)); err != nil {
			return nil, fmt.Errorf("--chat: %w", err)
		}
	}
	tokens, err := model.Tokenize(text, true)
	if err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, errEmptyPrompt
	}
	if len(tokens) >= context {
		return nil, fmt.Errorf("the prompt has %d tokens; a context of %d (--ctx, -c) leaves no room for an answer", len(tokens), context)
	}
	return tokens, nil
}
