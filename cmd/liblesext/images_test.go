package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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

// projector writes a projector of random weights for the reference model.
func projector(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	succeed(t, nil, "go", "run", "./testdata/projector", model, path)
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
	mmproj := projector(t)
	first, second := picture(t, 1), picture(t, 2)
	answers := map[string][]string{}
	for _, variable := range []string{"LES=off", "LES_SLOTS=floor"} {
		s := startServer(t, variable, "-m", model, "--mmproj", mmproj, "--no-repack", "-c", "512", "-np", "1")
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
	mmproj := projector(t)
	path := filepath.Join(t.TempDir(), "picture.png")
	if err := os.WriteFile(path, picture(t, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(binDir(t), "llama-mtmd-cli")
	args := []string{"-m", model, "--mmproj", mmproj, "--image", path, "-p", "func look() {", "-n", "24", "--temp", "0",
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
