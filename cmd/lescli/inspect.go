package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/urfave/cli/v2"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what a model needs and what each budget would buy",
		ArgsUsage: "MODEL",
		Description: "Reads metadata only. KV, compute and dense bytes are llama.cpp's own figures for\n" +
			"the given context length and batch.",
		Flags: []cli.Flag{
			ctxFlag(), ubatchFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: runInspect,
	}
}

// inspection is what inspect reports; its field names are those of --json.
type inspection struct {
	Model           string       `json:"model"`             // file
	Parts           int          `json:"parts"`             // files
	Architecture    string       `json:"architecture"`      // general.architecture
	Description     string       `json:"description"`       // llama.cpp's short text
	FileTensorBytes int64        `json:"file_tensor_bytes"` // all tensors of all parts
	Tensors         int          `json:"tensors"`           // their number
	Layers          int          `json:"layers"`            // without NextN blocks
	NextNBlocks     int          `json:"nextn_blocks"`      // extra blocks for multi-token prediction
	MoELayers       int          `json:"moe_layers"`        // layers with routed experts
	Experts         int          `json:"experts"`           // routed experts a layer
	Used            int          `json:"used"`              // top-k
	ExpertBytes     int64        `json:"expert_bytes"`      // the largest expert: gate, up and down
	RoutedBytes     int64        `json:"routed_bytes"`      // all routed experts of all layers
	NextNBytes      int64        `json:"nextn_bytes"`       // routed experts of NextN blocks
	TokenBytes      int64        `json:"token_bytes"`       // experts of one token, nothing cached
	DenseBytes      int64        `json:"dense_bytes"`       // weights that stay resident
	KVBytes         int64        `json:"kv_bytes"`          // KV cache and recurrent state
	ComputeBytes    int64        `json:"compute_bytes"`     // graph buffers
	ProcessBytes    int64        `json:"process_bytes"`     // code, vocabulary and runtime
	FloorBytes      int64        `json:"floor_bytes"`       // least budget that can run
	FullBytes       int64        `json:"full_bytes"`        // everything resident
	ContextTokens   int          `json:"context_tokens"`    // what kv_bytes is for
	UbatchTokens    int          `json:"ubatch_tokens"`     // what compute_bytes is for
	Budgets         []budgetLine `json:"budgets"`           // empty without experts
	Unknown         []string     `json:"unknown_tensors"`   // shaped like experts, kept resident
}

// budgetLine is what one budget buys.
type budgetLine struct {
	BudgetBytes int64   `json:"budget_bytes"`
	Slots       int     `json:"slots"`       // expert slots a layer
	SlotBytes   int64   `json:"slot_bytes"`  // all of them
	CachedShare float64 `json:"cached"`      // slots / experts
	TotalBytes  int64   `json:"total_bytes"` // what would be taken
}

func runInspect(c *cli.Context) error {
	path, err := onePath(c, "MODEL")
	if err != nil {
		return err
	}
	if err := checkCounts(c, "ctx", "ubatch"); err != nil {
		return err
	}
	report, err := inspect(path, c.Int("ctx"), c.Int("ubatch"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, report)
	}
	report.print(c.App.Writer)
	return nil
}

// inspect reads the metadata, and lets llama.cpp plan the model without
// loading it.
func inspect(path string, ctxTokens, ubatch int) (*inspection, error) {
	file, err := readModelFile(path)
	if err != nil {
		return nil, err
	}
	model, err := llama.LoadModel(path, llama.ModelParams{NoAlloc: true})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	lctx, err := llama.NewContext(model, llama.ContextParams{Tokens: ctxTokens, Batch: ubatch, Ubatch: ubatch, Seqs: 1})
	if err != nil {
		return nil, err
	}
	defer lctx.Close()
	memory := lctx.Memory()
	r := &inspection{
		Model: path, Parts: file.parts, Architecture: file.arch, Description: model.Description(),
		FileTensorBytes: file.totalBytes, Tensors: file.tensors, Layers: file.blocks - file.nextn,
		NextNBlocks: file.nextn, MoELayers: len(file.layers), Experts: file.experts, Used: file.used,
		ExpertBytes: file.expertBytes(), RoutedBytes: file.routedBytes(), NextNBytes: file.nextnBytes,
		KVBytes: memory.ContextBytes, ComputeBytes: memory.ComputeBytes,
		ContextTokens: lctx.Tokens(), UbatchTokens: lctx.Ubatch(), Unknown: append([]string{}, file.unknown...), Budgets: []budgetLine{},
	}
	r.DenseBytes = memory.ModelBytes - r.RoutedBytes
	r.TokenBytes = r.ExpertBytes * int64(r.Used) * int64(r.MoELayers)
	r.ProcessBytes = residentMemory() // weights are not in it: none were loaded
	r.FullBytes = r.fixedBytes() + r.RoutedBytes
	r.FloorBytes = r.FullBytes
	if r.MoELayers > 0 {
		r.FloorBytes = r.fixedBytes() + r.ExpertBytes*r.floorExperts()
		r.Budgets = r.budgetLines()
	}
	return r, nil
}

// floorExperts is the least number of expert slots in all: the experts of the
// layer that computes and of the next one, which is being read.
func (r *inspection) floorExperts() int64 { return int64(min(2*r.Used, r.Experts*r.MoELayers)) }

// fixedBytes is what no budget changes.
func (r *inspection) fixedBytes() int64 {
	return r.DenseBytes + r.KVBytes + r.ComputeBytes + r.ProcessBytes
}

// budgetLines are the floor, the powers of two of a GiB (of a MiB for small
// models) and the halves between them, and everything.
func (r *inspection) budgetLines() []budgetLine {
	lines := []budgetLine{r.buys(r.FloorBytes)}
	unit := int64(1) << 30
	if r.FullBytes < unit {
		unit = 1 << 20
	}
	for ; unit < r.FullBytes; unit *= 2 {
		for _, budget := range []int64{unit, unit / 2 * 3} {
			if budget > r.FloorBytes && budget < r.FullBytes {
				lines = append(lines, r.buys(budget))
			}
		}
	}
	return append(lines, r.buys(r.FullBytes))
}

// buys is what a budget at or above the floor gets.
func (r *inspection) buys(budget int64) budgetLine {
	layerBytes := r.ExpertBytes * int64(r.MoELayers)
	slots := int(min((budget-r.fixedBytes())/layerBytes, int64(r.Experts)))
	slotBytes := max(int64(slots)*layerBytes, r.FloorBytes-r.fixedBytes())
	return budgetLine{
		BudgetBytes: budget, Slots: slots, SlotBytes: slotBytes,
		CachedShare: float64(slots) / float64(r.Experts), TotalBytes: r.fixedBytes() + slotBytes,
	}
}

// print writes the report for people.
func (r *inspection) print(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	line("model", "%s (%d files, %d tensors, %s)", r.Model, r.Parts, r.Tensors, formatSize(r.FileTensorBytes))
	line("architecture", "%s: %s", r.Architecture, r.Description)
	line("layers", "%d, %d of them with routed experts, and %d NextN blocks", r.Layers, r.MoELayers, r.NextNBlocks)
	if r.MoELayers > 0 {
		line("experts", "%d a layer, top-%d, %s (%d bytes) each, %s in all", r.Experts, r.Used,
			formatSize(r.ExpertBytes), r.ExpertBytes, formatSize(r.RoutedBytes))
		line("a token", "uses %s of experts", formatSize(r.TokenBytes))
	}
	line("dense", "%s", formatSize(r.DenseBytes))
	line("kv", "%s for %d tokens", formatSize(r.KVBytes), r.ContextTokens)
	line("compute", "%s for batches of %d", formatSize(r.ComputeBytes), r.UbatchTokens)
	line("process", "%s of code, vocabulary and runtime", formatSize(r.ProcessBytes))
	line("floor", "%s", formatSize(r.FloorBytes))
	line("all resident", "%s", formatSize(r.FullBytes))
	if len(r.Unknown) > 0 {
		line("not known", "%s: shaped like experts, kept resident", strings.Join(r.Unknown, ", "))
	}
	if r.MoELayers == 0 {
		line("streaming", "off: the file has no routed experts")
		return
	}
	fmt.Fprintf(out, "\n%12s %12s %8s %12s\n", "budget", "slots/layer", "cached", "slot bytes")
	for _, b := range r.Budgets {
		fmt.Fprintf(out, "%12s %12d %7.1f%% %12s\n", formatSize(b.BudgetBytes), b.Slots, 100*b.CachedShare, formatSize(b.SlotBytes))
	}
}
