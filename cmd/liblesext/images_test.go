package main

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/les-project/les/cgo/llama"
)

// The vision tower of the tests: one block, four patches of an image, each of which
// becomes a token.
const (
	visionWidth = 32
	visionPatch = 16
	visionSide  = 2 // patches
)

// writeProjector writes a projector of random weights for a model whose tokens have
// this width.
func writeProjector(t *testing.T, width int64) string {
	t.Helper()
	w, err := llama.NewWriter(64)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = errors.Join(
		w.SetString("general.architecture", "clip"), w.SetBool("clip.has_vision_encoder", true), w.SetString("clip.projector_type", "janus_pro"),
		w.SetBool("clip.use_gelu", true), w.SetUint32("clip.vision.image_size", visionPatch*visionSide), w.SetUint32("clip.vision.patch_size", visionPatch),
		w.SetUint32("clip.vision.embedding_length", visionWidth), w.SetUint32("clip.vision.feed_forward_length", 2*visionWidth),
		w.SetUint32("clip.vision.block_count", 1), w.SetUint32("clip.vision.attention.head_count", 2),
		w.SetUint32("clip.vision.projection_dim", uint32(width)), w.SetFloat32("clip.vision.attention.layer_norm_epsilon", 1e-6),
		w.SetFloat32s("clip.vision.image_mean", []float32{0.5, 0.5, 0.5}), w.SetFloat32s("clip.vision.image_std", []float32{0.5, 0.5, 0.5}),
	)
	var elements []int64
	add := func(name string, shape ...int64) {
		n := int64(1)
		for _, ne := range shape {
			n *= ne
		}
		elements = append(elements, n)
		err = errors.Join(err, w.AddTensor(name, llama.F32, shape...))
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
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, w.DataBytes())
	chance := rand.New(rand.NewPCG(1, 2))
	for i, n := range elements {
		off, _ := w.Tensor(i)
		values := make([]float32, n)
		for k := range values {
			values[k] = float32(chance.NormFloat64() * 0.2)
		}
		binary.Encode(data[off:], binary.LittleEndian, values)
	}
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	if err := os.WriteFile(path, append(w.Meta(), data...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// picture is a PNG of random colours.
func picture(t *testing.T, seed uint64) []byte {
	t.Helper()
	chance := rand.New(rand.NewPCG(seed, 0))
	img := image.NewRGBA(image.Rect(0, 0, 48, 40))
	for i := range img.Bounds().Dx() * img.Bounds().Dy() {
		v := chance.Uint32()
		img.Set(i%48, i/48, color.RGBA{uint8(v), uint8(v >> 8), uint8(v >> 16), 255})
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, img); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func modelWidth(t *testing.T) int64 {
	t.Helper()
	file, err := llama.OpenFile(model)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	width, ok := file.Int("qwen3moe.embedding_length")
	if !ok {
		t.Fatal("the reference model does not tell its width")
	}
	return width
}

// lookAt has the server describe pictures, and returns the answers with the
// probabilities of their tokens.
func lookAt(t *testing.T, s *server, pictures ...[]byte) (answers []string) {
	t.Helper()
	for _, p := range pictures {
		url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(p)
		request := map[string]any{"max_tokens": 12, "temperature": 0, "cache_prompt": false, "logprobs": true, "top_logprobs": 3, "messages": []any{map[string]any{
			"role": "user", "content": []any{
				map[string]any{"type": "text", "text": "func look() {"},
				map[string]any{"type": "image_url", "image_url": map[string]any{"url": url}}}}}}
		var answer struct {
			Choices []struct {
				Message  json.RawMessage
				Logprobs json.RawMessage
			}
		}
		s.want(t, "/v1/chat/completions", request, &answer)
		if len(answer.Choices) != 1 || len(answer.Choices[0].Logprobs) < 100 {
			t.Fatalf("%+v", answer)
		}
		answers = append(answers, string(answer.Choices[0].Message)+string(answer.Choices[0].Logprobs))
	}
	return answers
}

func TestImagesAreSeenAsWithResidentExperts(t *testing.T) {
	projector := writeProjector(t, modelWidth(t))
	first, second := picture(t, 1), picture(t, 2)
	answers := map[string][]string{}
	for _, variable := range []string{"LES=off", "LES_SLOTS=floor"} {
		s := startServer(t, variable, "-m", model, "--mmproj", projector, "--no-repack", "-c", "512", "-np", "1")
		answers[variable] = lookAt(t, s, first, second, first)
		s.stop()
	}
	resident, streamed := answers["LES=off"], answers["LES_SLOTS=floor"]
	for i := range resident {
		if streamed[i] != resident[i] {
			t.Errorf("picture %d: streamed %s\nresident %s", i, streamed[i], resident[i])
		}
	}
	if resident[0] == resident[1] || resident[0] != resident[2] {
		t.Errorf("the answers do not depend on the pictures: %q", resident)
	}
}

func TestImagesOfTheCommandLineAreSeenAsWithResidentExperts(t *testing.T) {
	projector := writeProjector(t, modelWidth(t))
	path := filepath.Join(t.TempDir(), "picture.png")
	if err := os.WriteFile(path, picture(t, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(binDir(t), "llama-mtmd-cli")
	args := []string{"-m", model, "--mmproj", projector, "--image", path, "-p", "func look() {", "-n", "24", "--temp", "0",
		"-c", "512", "-t", "2", "--no-repack", "-v"}
	text := regexp.MustCompile(`(?s)[^\n].{20,}\n$`)
	resident := printed(t, text, "LES=off", program, args...)
	streamed := printed(t, text, "LES_SLOTS=floor", program, args...)
	if resident.stdout != streamed.stdout {
		t.Errorf("resident: %q\nstreamed: %q", resident.stdout, streamed.stdout)
	}
	if !regexp.MustCompile(streams).MatchString(streamed.stdout + streamed.stderr) {
		t.Errorf("nothing was streamed: %s", tail(streamed.stderr))
	}
}
