package quantize

import (
	"errors"
	"fmt"

	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/layout"
)

// Options say what a model is to be quantised to.
type Options struct {
	Experts    llama.TensorType // of routed experts
	Rest       llama.FileType   // the mixture for everything else
	Layers     []LayerType      // exceptions for the experts of some layers; later ones win
	Imatrix    *Imatrix         // nil for even weights
	Requantize bool             // also from types that have lost much already
	NoFallback bool             // refuse instead of giving a tensor another type
	Contiguous bool             // the layout of the new file
}

// LayerType is a type for the experts of a range of blocks.
type LayerType struct {
	First, Last int
	Role        string // gate, up, down or gate_up; empty for all
	Type        llama.TensorType
}

// covers says whether the exception is for this tensor.
func (l LayerType) covers(name layout.Name) bool {
	return name.Block >= l.First && name.Block <= l.Last && (l.Role == "" || l.Role == name.Role)
}

// Tensor is one tensor of the new model.
type Tensor struct {
	llama.TensorInfo                  // as it will be; its place is not known
	From             llama.TensorType // as it is
	Asked            llama.TensorType // what it should be, where that was not possible
	Why              string           // why not; empty where it was
	Expert           bool             // of routed experts
	Name             layout.Name      // taken apart, of experts
	Importance       *Importance      // nil for even weights
	source           int              // number in the source
}

// changed says whether the tensor is converted rather than copied.
func (t *Tensor) changed() bool { return t.From != t.Type }

// expertTypes is the type that each tensor of experts should have.
func (o *Options) expertTypes(tensors []llama.TensorInfo) (map[string]llama.TensorType, error) {
	types := map[string]llama.TensorType{}
	used := make([]bool, len(o.Layers))
	if err := o.checkBlocks(tensors); err != nil {
		return nil, err
	}
	for _, tensor := range tensors {
		name, ok := expertName(tensor)
		if !ok {
			continue
		}
		types[tensor.Name] = o.Experts
		for i, layer := range o.Layers {
			if layer.covers(name) {
				types[tensor.Name] = layer.Type
				used[i] = true
			}
		}
	}
	for i, layer := range o.Layers {
		if !used[i] {
			return nil, fmt.Errorf("--layers: blocks %d to %d have no such experts", layer.First, layer.Last)
		}
	}
	return types, nil
}

// checkBlocks refuses exceptions for blocks that there are not.
func (o *Options) checkBlocks(tensors []llama.TensorInfo) error {
	last := -1
	for _, tensor := range tensors {
		block := -1
		if n, _ := fmt.Sscanf(tensor.Name, "blk.%d.", &block); n == 1 {
			last = max(last, block)
		}
	}
	for _, layer := range o.Layers {
		if layer.Last > last {
			return fmt.Errorf("--layers: there is no block %d, the model's are 0 to %d", layer.Last, last)
		}
	}
	return nil
}

// expertName takes the name of a tensor of routed experts apart.
func expertName(tensor llama.TensorInfo) (layout.Name, bool) {
	name, ok := layout.ParseName(tensor.Name)
	return name, ok && tensor.Shape[2] >= 2 && tensor.Shape[3] == 1
}

// unweighted is the type instead of one that llama.cpp makes of importance data
// only: the next larger one that needs none.
func unweighted(t llama.TensorType) llama.TensorType {
	if t == llama.IQ3XXS {
		return llama.Q3K
	}
	return llama.Q2K
}

// choose asks llama.cpp for the type of each tensor. Experts that need importance
// data and have none are given another type before.
func (q *Quantizer) choose() error {
	infos := q.src.Tensors()
	index := map[string]int{}
	for i, info := range infos {
		index[info.Name] = i
	}
	types, err := q.opts.expertTypes(infos)
	if err != nil {
		return fmt.Errorf("%s: %w", q.src.Paths()[0], err)
	}
	if len(types) == 0 {
		return layout.ErrNoExperts
	}
	without := map[string]llama.TensorType{} // asked for, of tensors without data
	for name, t := range types {
		importance, err := q.opts.Imatrix.Of(infos[index[name]])
		if err != nil {
			return err
		}
		if importance == nil && t.NeedsWeights() {
			without[name], types[name] = t, unweighted(t)
		}
	}
	planned, err := llama.PlanQuantize(q.src.Paths()[0], llama.QuantizeChoice{
		FileType: q.opts.Rest, Tensors: types, Imatrix: q.opts.Imatrix != nil,
	})
	if err != nil {
		return err
	}
	if len(planned) != len(infos) {
		return fmt.Errorf("%s: llama.cpp would write %d tensors of %d", q.src.Paths()[0], len(planned), len(infos))
	}
	for _, plan := range planned {
		i, ok := index[plan.Name]
		if !ok {
			return fmt.Errorf("%s: llama.cpp would write a tensor %s that is not there", q.src.Paths()[0], plan.Name)
		}
		tensor, err := q.tensor(infos[i], plan)
		if err != nil {
			return fmt.Errorf("%s: %w", q.src.PathOf(i), err)
		}
		if asked, ok := without[plan.Name]; ok {
			tensor.Asked, tensor.Why = asked, "no importance data"
		}
		tensor.source = i
		q.Tensors = append(q.Tensors, tensor)
	}
	return q.checkFallbacks()
}

// tensor describes one tensor of the new model and refuses what cannot be made.
func (q *Quantizer) tensor(info llama.TensorInfo, plan llama.QuantizedTensor) (Tensor, error) {
	t := Tensor{TensorInfo: info, From: info.Type, Asked: plan.Asked}
	t.Type = plan.Type
	t.Name, t.Expert = expertName(info)
	if plan.Type != plan.Asked {
		t.Why = fmt.Sprintf("rows of %d do not divide into blocks of %d", info.Shape[0], plan.Asked.BlockElements())
	}
	t.Bytes = t.Type.RowBytes(info.Shape[0]) * info.Shape[1] * info.Shape[2] * info.Shape[3]
	if !t.changed() {
		return t, nil
	}
	var err error
	if t.Importance, err = q.opts.Imatrix.Of(info); err != nil {
		return t, err
	}
	switch {
	case !t.From.Readable() || !t.Type.Writable():
		err = fmt.Errorf("tensor %s: cannot be converted from %v to %v", info.Name, t.From, t.Type)
	case !q.opts.Requantize && t.From.Quantized() && t.From != llama.Q8_0:
		err = fmt.Errorf("tensor %s is %v, which has lost much already: quantise from F32, F16, BF16 or Q8_0, or say --allow-requantize", info.Name, t.From)
	case t.Importance == nil && t.Type.NeedsWeights():
		err = fmt.Errorf("tensor %s: %v needs importance data, and there are none for it", info.Name, t.Type)
	}
	return t, err
}

// checkFallbacks refuses them where that is asked for.
func (q *Quantizer) checkFallbacks() error {
	if !q.opts.NoFallback {
		return nil
	}
	var err error
	for _, t := range q.Tensors {
		if t.Why != "" {
			err = errors.Join(err, fmt.Errorf("tensor %s: %v instead of %v: %s", t.TensorInfo.Name, t.Type, t.Asked, t.Why))
		}
	}
	return err
}
