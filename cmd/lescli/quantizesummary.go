package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/cmd/lescli/internal/quantize"
	"github.com/urfave/cli/v2"
)

// printQuantize says what will be written, before it is.
func printQuantize(c *cli.Context, q *quantize.Quantizer, opts quantize.Options) error {
	bytes, err := q.Bytes()
	if err != nil {
		return err
	}
	out := c.App.Writer
	printExpertTypes(out, q)
	fmt.Fprintf(out, "the rest: %s, %s\n", opts.Rest, countTypes(q.Tensors, func(t quantize.Tensor) bool { return !t.Expert }))
	printFallbacks(out, q)
	printImportance(out, q, opts.Imatrix)
	weights := int64(0)
	for _, t := range q.Tensors {
		weights += t.Shape[0] * t.Shape[1] * t.Shape[2] * t.Shape[3]
	}
	mean, largest := q.ExpertBytes()
	fmt.Fprintf(out, "an expert: %d bytes", mean)
	if largest != mean {
		fmt.Fprintf(out, " (mean; the largest %d)", largest)
	}
	fmt.Fprintf(out, "\nfinal size: %s (%d bytes), %.2f bits a weight, now %s; layout %s\n",
		formatSize(bytes), bytes, 8*float64(bytes)/float64(weights), formatSize(q.SourceBytes()), c.String("layout"))
	return nil
}

// printExpertTypes lists runs of blocks whose experts have the same types.
func printExpertTypes(out io.Writer, q *quantize.Quantizer) {
	blocks := map[int]map[string]llama.TensorType{}
	for _, t := range q.Tensors {
		if !t.Expert {
			continue
		}
		if blocks[t.Name.Block] == nil {
			blocks[t.Name.Block] = map[string]llama.TensorType{}
		}
		blocks[t.Name.Block][strings.TrimSuffix(t.Name.Role+" "+t.Name.Kind, " exps")] = t.Type
	}
	var numbers []int
	for block := range blocks {
		numbers = append(numbers, block)
	}
	slices.Sort(numbers)
	for i := 0; i < len(numbers); {
		text, end := rolesText(blocks[numbers[i]]), i+1
		for end < len(numbers) && rolesText(blocks[numbers[end]]) == text {
			end++
		}
		fmt.Fprintf(out, "experts of block %s: %s\n", rangeText(numbers[i], numbers[end-1]), text)
		i = end
	}
}

// rolesText is one type, or the type of each role.
func rolesText(types map[string]llama.TensorType) string {
	var roles []string
	same := true
	first, started := llama.TensorType(0), false
	for role, t := range types {
		if !started {
			first, started = t, true
		}
		same = same && t == first
		roles = append(roles, role)
	}
	if same {
		return first.String()
	}
	slices.Sort(roles)
	for i, role := range roles {
		roles[i] = role + " " + types[role].String()
	}
	return strings.Join(roles, ", ")
}

func rangeText(first, last int) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d to %d", first, last)
}

// countTypes counts tensors by their type.
func countTypes(tensors []quantize.Tensor, of func(quantize.Tensor) bool) string {
	counts := map[string]int{}
	var names []string
	for _, t := range tensors {
		if !of(t) {
			continue
		}
		name := t.Type.String()
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name]++
	}
	slices.Sort(names)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", counts[name], name)
	}
	return strings.Join(names, ", ")
}

// printedNames is how many tensors of a group are named.
const printedNames = 10

// printFallbacks names the tensors that do not get the type they should.
func printFallbacks(out io.Writer, q *quantize.Quantizer) {
	for _, group := range q.Fallbacks() {
		fmt.Fprintf(out, "fallback: %d of %d tensors %v: %s\n", len(group.Names), len(q.Tensors), group, namesText(group.Names))
	}
}

func namesText(names []string) string {
	text := strings.Join(names[:min(printedNames, len(names))], ", ")
	if more := len(names) - printedNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// printImportance says what the importance data do not cover.
func printImportance(out io.Writer, q *quantize.Quantizer, imatrix *quantize.Imatrix) {
	if imatrix == nil {
		fmt.Fprintln(out, "importance data: none, all columns count the same; lescli imatrix collects them")
		return
	}
	var without []string
	fmt.Fprintf(out, "importance data: %s, of %d chunks of text\n", imatrix.Path, imatrix.Chunks)
	if name := q.ModelName(); imatrix.Model != "" && name != "" && imatrix.Model != name {
		fmt.Fprintf(out, "warning: the importance data are of a model called %q, this one is called %q\n", imatrix.Model, name)
	}
	for _, t := range q.Tensors {
		switch {
		case !t.Expert, t.From == t.Type: // copied, whatever the data
		case t.Importance == nil:
			without = append(without, t.TensorInfo.Name)
		case t.Importance.Unseen() > 0:
			fmt.Fprintf(out, "even weights: %d of %d experts of %s were never seen\n", t.Importance.Unseen(), t.Shape[2], t.TensorInfo.Name)
		}
	}
	if len(without) > 0 {
		fmt.Fprintf(out, "even weights: no importance data for %s\n", namesText(without))
	}
}
