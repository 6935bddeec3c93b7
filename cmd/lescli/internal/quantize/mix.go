package quantize

import (
	"context"
	"fmt"
	"slices"

	"github.com/les-project/les/cgo/llama"
)

// mixTypes are what experts can get in a mix: types that every processor computes
// fast, with a bit between each and the next.
var mixTypes = []llama.TensorType{llama.Q2K, llama.Q3K, llama.Q4K, llama.Q5K, llama.Q6K}

// mixRests are the mixtures that everything else can get: the one asked for, and
// those of these that are larger.
var mixRests = []string{"q4_k_m", "q5_k_m", "q6_k", "q8_0"}

// Mix chooses types layer by layer so that the file is at most target bytes. What
// it makes as small as it can is the sum, over all matrices, of the share of
// their output that is lost: squares of what quantising changes, weighted by the
// importance data, over the squares of the weights themselves. The result is opts
// with the choice in it.
func Mix(ctx context.Context, path string, opts Options, target int64, progress func(done, total int64)) (Options, error) {
	if err := checkTarget(path, opts, target); err != nil {
		return opts, err
	}
	m := &mix{ctx: ctx, path: path, opts: opts, progress: progress}
	if err := m.measure(); err != nil {
		return opts, err
	}
	for room := target; ; {
		chosen, err := m.choose(room)
		if err != nil {
			return opts, fmt.Errorf("%d bytes are too few: %w", target, err)
		}
		bytes, err := sizeOf(path, chosen)
		if err != nil || bytes <= target {
			return chosen, err
		}
		room -= bytes - target // metadata and padding, which are not of any tensor
	}
}

// checkTarget refuses a size that no choice reaches, before anything is measured.
func checkTarget(path string, opts Options, target int64) error {
	opts.Experts, opts.Layers = mixTypes[0], nil
	least, err := sizeOf(path, opts)
	if err == nil && target < least {
		err = fmt.Errorf("%d is too small: with experts in %v and %v for the rest, the least there is, the file has %d bytes", target, opts.Experts, opts.Rest, least)
	}
	return err
}

// sizeOf is the size of the file that a choice makes.
func sizeOf(path string, opts Options) (int64, error) {
	q, err := Open(path, opts)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	return q.Bytes()
}

// mix is a choice on its way.
type mix struct {
	ctx         context.Context
	path        string
	opts        Options
	progress    func(done, total int64)
	done, total int64
	items       []mixItem
}

// mixItem is what is chosen as one: a matrix of all experts of a layer, or all
// that is not of experts.
type mixItem struct {
	layer   LayerType // without its type
	options []mixOption
}

// mixOption is one choice for an item.
type mixOption struct {
	tensor llama.TensorType
	rest   llama.FileType
	bytes  int64
	lost   float64
}

// measure finds out what each choice takes and loses.
func (m *mix) measure() error {
	rests := []llama.FileType{m.opts.Rest}
	for _, name := range mixRests {
		if rest, _ := llama.ParseFileType(name); rest != m.opts.Rest {
			rests = append(rests, rest)
		}
	}
	m.total = int64(len(mixTypes) + len(rests))
	for _, t := range mixTypes {
		opts := m.opts
		opts.Experts, opts.Layers = t, nil
		if err := m.try(opts, func(q *Quantizer, c *converter) error { return m.addExperts(q, c, t) }); err != nil {
			return err
		}
	}
	rest := mixItem{layer: LayerType{First: -1}}
	for _, r := range rests {
		opts := m.opts
		opts.Rest = r
		err := m.try(opts, func(q *Quantizer, c *converter) error {
			option, err := m.measureRest(q, c)
			option.rest = r
			if len(rest.options) == 0 || option.bytes > rest.options[0].bytes {
				rest.options = append(rest.options, option)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	m.items = append(m.items, rest)
	return nil
}

// try opens the model for one choice.
func (m *mix) try(opts Options, fn func(*Quantizer, *converter) error) error {
	q, err := Open(m.path, opts)
	if err != nil {
		return err
	}
	defer q.Close()
	err = fn(q, newConverter(q.src, nil))
	m.done++
	if m.progress != nil {
		m.progress(m.done, m.total)
	}
	return err
}

// addExperts adds an option to each matrix of experts.
func (m *mix) addExperts(q *Quantizer, c *converter, t llama.TensorType) error {
	for i := range q.Tensors {
		tensor := &q.Tensors[i]
		if !tensor.Expert {
			continue
		}
		lost, err := c.lost(m.ctx, tensor)
		if err != nil {
			return err
		}
		layer := LayerType{First: tensor.Name.Block, Last: tensor.Name.Block, Role: tensor.Name.Role}
		at := slices.IndexFunc(m.items, func(item mixItem) bool { return item.layer == layer })
		if at < 0 {
			at = len(m.items)
			m.items = append(m.items, mixItem{layer: layer})
		}
		m.items[at].add(mixOption{tensor: t, bytes: tensor.Bytes, lost: lost})
	}
	return nil
}

// add adds an option, or what it takes and loses to that of the same type: two
// kinds of experts in one block have their matrices in one item.
func (item *mixItem) add(o mixOption) {
	for i := range item.options {
		if item.options[i].tensor == o.tensor {
			item.options[i].bytes += o.bytes
			item.options[i].lost += o.lost
			return
		}
	}
	item.options = append(item.options, o)
}

// measureRest sums up everything that is not of experts.
func (m *mix) measureRest(q *Quantizer, c *converter) (o mixOption, err error) {
	for i := range q.Tensors {
		tensor := &q.Tensors[i]
		if tensor.Expert {
			continue
		}
		o.bytes += tensor.Bytes
		if !tensor.changed() {
			continue
		}
		lost, err := c.lost(m.ctx, tensor)
		if err != nil {
			return o, err
		}
		o.lost += lost
	}
	return o, nil
}

// choose starts with the least of everything and spends what is left where a byte
// saves most, as long as there is room.
func (m *mix) choose(room int64) (Options, error) {
	at := make([]int, len(m.items))
	for i, item := range m.items {
		for j, o := range item.options {
			if o.bytes < item.options[at[i]].bytes {
				at[i] = j
			}
		}
		room -= item.options[at[i]].bytes
	}
	if room < 0 {
		return Options{}, fmt.Errorf("the least is %d more", -room)
	}
	for {
		best, item := m.step(at, room)
		if best < 0 {
			return m.chosen(at), nil
		}
		room -= m.items[item].options[best].bytes - m.items[item].options[at[item]].bytes
		at[item] = best
	}
}

// step finds the change that saves most for each byte, -1 if none fits.
func (m *mix) step(at []int, room int64) (best, of int) {
	best, gain := -1, 0.0
	for i, item := range m.items {
		now := item.options[at[i]]
		for j, o := range item.options {
			bytes, saved := o.bytes-now.bytes, now.lost-o.lost
			if bytes > 0 && bytes <= room && saved/float64(bytes) > gain {
				best, of, gain = j, i, saved/float64(bytes)
			}
		}
	}
	return best, of
}

// chosen turns a choice into options.
func (m *mix) chosen(at []int) Options {
	opts := m.opts
	opts.Layers = nil
	for i, item := range m.items {
		o := item.options[at[i]]
		if item.layer.First < 0 {
			opts.Rest = o.rest
			continue
		}
		layer := item.layer
		layer.Type = o.tensor
		opts.Layers = append(opts.Layers, layer)
	}
	return opts
}
