// Command projector writes a projector of random weights, so that a model which was
// never trained on pictures can be shown some: four tokens each.
package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"

	"github.com/les-project/les/cgo/llama"
)

// The vision tower has one block, four patches of an image, each of which
// becomes a token.
const (
	visionWidth = 32
	visionPatch = 16
	visionSide  = 2 // patches
)

// describe sets the keys of a projector for a model whose tokens have this width.
func describe(w *llama.Writer, width int64) error {
	return errors.Join(
		w.SetString("general.architecture", "clip"), w.SetBool("clip.has_vision_encoder", true), w.SetString("clip.projector_type", "janus_pro"),
		w.SetBool("clip.use_gelu", true), w.SetUint32("clip.vision.image_size", visionPatch*visionSide), w.SetUint32("clip.vision.patch_size", visionPatch),
		w.SetUint32("clip.vision.embedding_length", visionWidth), w.SetUint32("clip.vision.feed_forward_length", 2*visionWidth),
		w.SetUint32("clip.vision.block_count", 1), w.SetUint32("clip.vision.attention.head_count", 2),
		w.SetUint32("clip.vision.projection_dim", uint32(width)), w.SetFloat32("clip.vision.attention.layer_norm_epsilon", 1e-6),
		w.SetFloat32s("clip.vision.image_mean", []float32{0.5, 0.5, 0.5}), w.SetFloat32s("clip.vision.image_std", []float32{0.5, 0.5, 0.5}),
	)
}

// tensors are those of the projector, with their shapes.
func tensors(width int64) (names []string, shapes [][]int64) {
	add := func(name string, shape ...int64) {
		names, shapes = append(names, name), append(shapes, shape)
	}
	add("v.patch_embd.weight", visionPatch, visionPatch, 3, visionWidth)
	add("v.position_embd.weight", visionWidth, visionSide*visionSide)
	for _, name := range []string{"ln1", "ln2"} {
		add("v.blk.0."+name+".weight", visionWidth)
		add("v.blk.0."+name+".bias", visionWidth)
	}
	for _, name := range []string{"attn_q", "attn_k", "attn_v", "attn_out"} {
		add("v.blk.0."+name+".weight", visionWidth, visionWidth)
	}
	add("v.blk.0.ffn_up.weight", visionWidth, 2*visionWidth)
	add("v.blk.0.ffn_down.weight", 2*visionWidth, visionWidth)
	add("mm.0.weight", visionWidth, width)
	add("mm.0.bias", width)
	add("mm.1.weight", width, width)
	add("mm.1.bias", width)
	return names, shapes
}

// write writes a projector of random weights.
func write(path string, width int64) error {
	w, err := llama.NewWriter(64)
	if err != nil {
		return err
	}
	defer w.Close()
	err = describe(w, width)
	names, shapes := tensors(width)
	for i, name := range names {
		err = errors.Join(err, w.AddTensor(name, llama.F32, shapes[i]...))
	}
	if err != nil {
		return err
	}
	data := make([]byte, w.DataBytes())
	chance := rand.New(rand.NewPCG(1, 2))
	for i := range names {
		off, size := w.Tensor(i)
		for end := off + size; off < end; off += 4 {
			value := float32(chance.NormFloat64() * 0.2)
			binary.LittleEndian.PutUint32(data[off:], math.Float32bits(value))
		}
	}
	return os.WriteFile(path, append(w.Meta(), data...), 0o600)
}

func run(model, path string) error {
	file, err := llama.OpenFile(model)
	if err != nil {
		return err
	}
	defer file.Close()
	arch, _ := file.String("general.architecture")
	width, ok := file.Int(arch + ".embedding_length")
	if !ok {
		return fmt.Errorf("%s does not tell its width", model)
	}
	return write(path, width)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: projector MODEL OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "projector:", err)
		os.Exit(1)
	}
}
