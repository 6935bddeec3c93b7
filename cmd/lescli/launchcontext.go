package main

import (
	"fmt"

	"github.com/les-project/les/cgo/llama"
)

const (
	// contextMost and contextLeast bound what is chosen when nobody says. Talks are
	// seldom longer than the first; below the second few of them fit.
	contextMost  = 32768
	contextLeast = 4096
	// contextShare is the part of the budget that a context may take, the rest being
	// worth more as expert slots.
	contextShare = 1.0 / 8
)

// affordableContext is the longest context, by powers of two, that takes little of
// the budget and that the model was trained for. A budget that is not known, 0,
// buys the least.
func affordableContext(path string, budget int64) (int, error) {
	model, err := llama.LoadModel(path, llama.ModelParams{NoAlloc: true})
	if err != nil {
		return 0, err
	}
	defer model.Close()
	least := min(contextLeast, model.TrainedContext())
	for tokens := min(contextMost, model.TrainedContext()); tokens > least; tokens /= 2 {
		bytes, err := contextBytes(model, tokens)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", path, err)
		}
		if float64(bytes) <= contextShare*float64(budget) {
			return tokens, nil
		}
	}
	return least, nil
}

func contextBytes(model *llama.Model, tokens int) (int64, error) {
	lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: tokens, Seqs: 1})
	if err != nil {
		return 0, err
	}
	defer lctx.Close()
	return lctx.Memory().ContextBytes, nil
}
