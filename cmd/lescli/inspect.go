package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/plan"
	"github.com/urfave/cli/v2"
)

func inspectCommand() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show what a model needs and what each budget would buy",
		ArgsUsage: "[MODEL]",
		Description: "Reads metadata only. KV, compute and dense bytes are llama.cpp's own figures for " +
			"the given context length and batch.",
		Flags: []cli.Flag{
			namedModelFlag(), ctxFlag(), ubatchFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Action: runInspect,
	}
}

// inspection is what inspect reports; its field names are those of --json.
type inspection struct {
	Model           string         `json:"model"`             // file
	Parts           int            `json:"parts"`             // files
	Layout          string         `json:"layout"`            // stock, or contiguous after repack
	Architecture    string         `json:"architecture"`      // general.architecture
	Description     string         `json:"description"`       // llama.cpp's short text
	FileTensorBytes int64          `json:"file_tensor_bytes"` // all tensors of all parts
	Tensors         int            `json:"tensors"`           // their number
	Layers          int            `json:"layers"`            // without NextN blocks
	NextNBlocks     int            `json:"nextn_blocks"`      // extra blocks for multi-token prediction
	MoELayers       int            `json:"moe_layers"`        // layers with routed experts
	Experts         int            `json:"experts"`           // routed experts a layer
	Used            int            `json:"used"`              // top-k
	ExpertBytes     int64          `json:"expert_bytes"`      // the largest expert: gate, up and down
	RoutedBytes     int64          `json:"routed_bytes"`      // all routed experts of all layers
	NextNBytes      int64          `json:"nextn_bytes"`       // routed experts of NextN blocks
	RowsBytes       int64          `json:"rows_bytes"`        // token embeddings, where a run reads their rows from the file
	TokenBytes      int64          `json:"token_bytes"`       // experts of one token, nothing cached
	DenseBytes      int64          `json:"dense_bytes"`       // weights that are read into memory
	KVBytes         int64          `json:"kv_bytes"`          // KV cache and recurrent state
	ComputeBytes    int64          `json:"compute_bytes"`     // graph buffers and the work buffer
	ProcessBytes    int64          `json:"process_bytes"`     // code, vocabulary, runtime and a reserve for its growth
	SlotBytes       int64          `json:"slot_bytes"`        // one expert slot: the largest expert, aligned for direct reads
	FloorSlots      int            `json:"floor_slots"`       // expert slots in the floor
	FloorBytes      int64          `json:"floor_bytes"`       // least budget that can run
	FullBytes       int64          `json:"full_bytes"`        // everything resident
	ContextTokens   int            `json:"context_tokens"`    // what kv_bytes is for
	UbatchTokens    int            `json:"ubatch_tokens"`     // what compute_bytes is for
	Budgets         []budgetLine   `json:"budgets"`           // empty without experts
	Unknown         []expertTensor `json:"unknown_tensors"`   // shaped like experts, under unknown names: kept resident
}

// budgetLine is what one budget buys.
type budgetLine struct {
	BudgetBytes   int64   `json:"budget_bytes"`
	Slots         int     `json:"slots"`           // expert slots in all
	SlotsPerLayer float64 `json:"slots_per_layer"` // of them above the floor, mean of the layers
	SlotsBytes    int64   `json:"slots_bytes"`     // all of them
	CachedShare   float64 `json:"cached"`          // slots / experts of all layers
	TotalBytes    int64   `json:"total_bytes"`     // what would be taken
}

func runInspect(c *cli.Context) error {
	path, err := oneModel(c)
	if err != nil {
		return err
	}
	if err := checkCounts(c, "ctx", "ubatch"); err != nil {
		return err
	}
	file, err := readModelFile(path)
	if err != nil {
		return err
	}
	tokens := contextOriginOf(c).length(c.Int("ctx"), file.Trained, c.App.ErrWriter)
	report, err := inspect(file, tokens, c.Int("ubatch"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return printJSON(c.App.Writer, report)
	}
	report.print(c.App.Writer)
	return nil
}

// dependent is what llama.cpp says where it makes no context of a drafter without
// that of another model: the file has no embeddings or no output of its own.
const dependent = "requires ctx_other"

// inspect reads the metadata, and lets llama.cpp plan the model without
// loading it.
func inspect(file *modelFile, ctxTokens, ubatch int) (*inspection, error) {
	path := file.paths[0]
	model, err := llama.LoadModel(path, llama.ModelParams{NoAlloc: true})
	if err != nil {
		return nil, err
	}
	defer model.Close()
	params := llama.ContextParams{Tokens: ctxTokens, Batch: ubatch, Ubatch: ubatch, Seqs: 1, Outputs: 1}
	lctx, err := llama.NewContext(model, params)
	if err != nil {
		return nil, whyNoPlan(file, err)
	}
	defer lctx.Close()
	memory, process := lctx.Memory(), les.ResidentBytes() // weights are not in it: none were loaded
	states, err := stateBytes(model, params, memory.ContextBytes)
	if err != nil {
		return nil, err
	}
	r := &inspection{
		Model: path, Parts: len(file.paths), Layout: file.layoutName(), Architecture: file.Arch, Description: model.Description(),
		FileTensorBytes: file.totalBytes, Tensors: file.tensors, Layers: file.Blocks - file.NextN,
		NextNBlocks: file.NextN, MoELayers: len(file.layers), Experts: file.Experts, Used: file.Used,
		ExpertBytes: file.expertBytes(), RoutedBytes: file.routedBytes(), NextNBytes: file.nextnBytes, RowsBytes: file.rowsBytes(),
		ContextTokens: lctx.Tokens(), UbatchTokens: lctx.Ubatch(), Unknown: append([]expertTensor{}, file.unknown...), Budgets: []budgetLine{},
	}
	r.TokenBytes = r.ExpertBytes * int64(r.Used) * int64(r.MoELayers)
	r.planned(file.shape(), plan.Usage{
		Dense: memory.ModelBytes - r.RoutedBytes - r.RowsBytes, KV: memory.ContextBytes, Compute: memory.ComputeBytes,
		Work:    file.WorkBytes(lctx.Ubatch()),
		Process: max(0, process-states),
	})
	return r, nil
}

// stateBytes is the memory of recurrent states, which llama.cpp takes although nothing
// is loaded: of each one more for a token that can be taken back.
func stateBytes(model *llama.Model, params llama.ContextParams, without int64) (int64, error) {
	params.Rollback = 1
	lctx, err := llama.NewContext(model, params)
	if err != nil {
		return 0, err
	}
	defer lctx.Close()
	return lctx.Memory().ContextBytes - without, nil
}

// whyNoPlan is why llama.cpp made no context, for people.
func whyNoPlan(file *modelFile, err error) error {
	if !strings.Contains(err.Error(), dependent) {
		return err
	}
	return fmt.Errorf("%s: is a drafter (%s) that computes with weights of the model it drafts for, so there is no plan for it alone; "+
		"lescli run -m MODEL --draft %[1]s --verbose shows what both take", file.paths[0], file.Arch)
}

// planned fills in what the engine's own plan says for each budget.
func (r *inspection) planned(shape plan.Shape, usage plan.Usage) {
	floor, _ := plan.Make(shape, usage, plan.Request{}) // fails for budgets only
	r.DenseBytes, r.KVBytes, r.ComputeBytes, r.ProcessBytes = floor.Dense, floor.KV, floor.Compute+floor.Work, floor.Process
	r.FloorBytes, r.FullBytes = floor.Floor, floor.Full()
	if r.MoELayers == 0 {
		r.FloorBytes = r.FullBytes
		return
	}
	r.SlotBytes, r.FloorSlots = shape.SlotBytes, shape.FloorSlots()
	for _, budget := range budgets(r.FloorBytes, r.FullBytes) {
		p, err := plan.Make(shape, usage, plan.Request{Budget: budget, SlotsPerLayer: slotsFromBudget})
		if err != nil {
			panic("lescli: a budget below the floor: " + err.Error())
		}
		r.Budgets = append(r.Budgets, budgetLine{
			BudgetBytes: budget, Slots: p.SlotCount, SlotsPerLayer: p.SlotsPerLayer(), SlotsBytes: p.Slots,
			CachedShare: float64(p.SlotCount) / float64(p.All), TotalBytes: p.Total,
		})
	}
}

// budgets are the floor, the powers of two of a GiB (of a MiB for small models)
// and the halves between them, and everything.
func budgets(floor, full int64) []int64 {
	list := []int64{floor}
	unit := int64(1) << 30
	if full < unit {
		unit = 1 << 20
	}
	for ; unit < full; unit *= 2 {
		for _, budget := range []int64{unit, unit / 2 * 3} {
			if budget > floor && budget < full {
				list = append(list, budget)
			}
		}
	}
	return append(list, full)
}

// print writes the report for people.
func (r *inspection) print(out io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(out, "%-14s "+format+"\n", append([]any{name}, args...)...)
	}
	line("model", "%s (%d file(s), %d tensors, %s)", r.Model, r.Parts, r.Tensors, formatSize(r.FileTensorBytes))
	line("layout", "%s", r.Layout)
	line("architecture", "%s: %s", r.Architecture, r.Description)
	line("layers", "%d, %d of them with routed experts, and %d NextN blocks", r.Layers, r.MoELayers, r.NextNBlocks)
	if r.MoELayers > 0 {
		line("experts", "%d a layer, top-%d, %s (%d bytes) each, %s in all", r.Experts, r.Used,
			formatSize(r.ExpertBytes), r.ExpertBytes, formatSize(r.RoutedBytes))
		line("a token", "uses %s of experts", formatSize(r.TokenBytes))
	}
	if r.RowsBytes > 0 {
		line("embeddings", "%s, read from the file row by row", formatSize(r.RowsBytes))
	}
	line("dense", "%s", formatSize(r.DenseBytes))
	line("kv", "%s for %d tokens", formatSize(r.KVBytes), r.ContextTokens)
	line("compute", "%s for batches of %d, work buffer included", formatSize(r.ComputeBytes), r.UbatchTokens)
	line("process", "%s of code, vocabulary, runtime and reserve", formatSize(r.ProcessBytes))
	line("floor", "%s; a run measures compute and process itself, and may need some percent more", formatSize(r.FloorBytes))
	line("all resident", "%s", formatSize(r.FullBytes))
	for _, tensor := range r.Unknown {
		line("not known", "%s: %s, shaped like experts, kept resident", tensor.Name, formatSize(tensor.Bytes))
	}
	if r.NextNBytes > 0 {
		line("nextn", "%s of experts: not loaded without drafting", formatSize(r.NextNBytes))
	}
	if r.MoELayers == 0 {
		line("streaming", "off: the file has no routed experts")
		return
	}
	line("slots", "%s each, %d in the floor", formatSize(r.SlotBytes), r.FloorSlots)
	fmt.Fprintf(out, "\n%12s %12s %12s %8s %12s\n", "budget", "slots", "per layer", "cached", "slot bytes")
	for _, b := range r.Budgets {
		fmt.Fprintf(out, "%12s %12d %12.2f %7.1f%% %12s\n", formatSize(b.BudgetBytes), b.Slots, b.SlotsPerLayer, 100*b.CachedShare, formatSize(b.SlotsBytes))
	}
}
