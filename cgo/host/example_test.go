package host_test

import (
	"fmt"

	"github.com/les-project/les/cgo/host"
	"github.com/les-project/les/cgo/llama"
)

// A Go program is its own engine: it registers it once, says how models are to be
// streamed, and uses package llama as always.
func Example() {
	llama.Init()
	if err := host.Register(); err != nil {
		fmt.Println(err)
		return
	}
	if err := host.SetOption("slots", "floor"); err != nil {
		fmt.Println(err)
		return
	}
	defer host.ResetOptions()
	model, err := llama.LoadModel("../../models/les-ref.gguf", llama.ModelParams{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer model.Close()
	lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: 64})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lctx.Close()
	batch := llama.NewBatch(4)
	defer batch.Close()
	for i := range 4 {
		batch.Add(llama.Token(i+1), i, 0, i == 3)
	}
	if err := lctx.Decode(batch); err != nil {
		fmt.Println(err)
		return
	}
	counters, err := host.CountersOf(model)
	fmt.Println(counters.Lookups > 0, counters.ReadBytes > 0, err)
	// Output: true true <nil>
}
