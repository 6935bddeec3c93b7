package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// contextTokensMax is more than any model was trained for. llama.cpp keeps some 50
// bytes of records for each token of a context, whatever is computed.
const contextTokensMax = 1 << 24

// contextOrigin says why a context is as long as it is.
type contextOrigin int

const (
	contextDerived contextOrigin = iota // the work needs it
	contextDefault                      // nobody said
	contextAsked                        // by --ctx
	contextChunk                        // of a text that is measured
)

func contextOriginOf(c *cli.Context) contextOrigin {
	if c.IsSet("ctx") {
		return contextAsked
	}
	return contextDefault
}

// length is how long the context of one text is, for a model that was trained for
// contexts of so many tokens (0: the file does not say). A longer one than that is
// taken where it was asked for, with a warning, as by llama.cpp's programs.
func (o contextOrigin) length(tokens, trained int, log io.Writer) int {
	if trained <= 0 || tokens <= trained {
		return tokens
	}
	switch o {
	case contextDefault:
		return trained
	case contextAsked:
		fmt.Fprintf(log, "warning: --ctx (-c): %d is more than the %d tokens that the model was trained for\n", tokens, trained)
	case contextChunk:
		fmt.Fprintf(log, "warning: the model was trained for %d tokens, and chunks have %d; --ctx (-c) makes them shorter\n", trained, tokens)
	}
	return tokens
}
