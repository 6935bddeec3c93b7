package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compare has a server with LES off and one with experts streamed do the same, whose
// answers must be equal to the byte.
func compare(t *testing.T, do func(s *server) []string, args ...string) (log string) {
	t.Helper()
	var resident, streamed []string
	for _, test := range []struct {
		variable string
		answers  *[]string
	}{{"LES=off", &resident}, {"LES_SLOTS=floor", &streamed}} {
		s := startServer(t, test.variable, append(args, "--no-repack", "-v")...)
		*test.answers = do(s)
		log = s.stop()
	}
	for i := range resident {
		if streamed[i] != resident[i] {
			t.Errorf("answer %d: streamed %s\nresident %s", i, streamed[i], resident[i])
		}
	}
	if !strings.Contains(log, "expert slots for") {
		t.Errorf("nothing was streamed: %s", tail(log))
	}
	return log
}

// synth writes a model of random weights, of a shape that lescli knows.
func synth(t *testing.T, preset string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), preset+".gguf")
	succeed(t, nil, filepath.Join(binDir(t), "lescli"), "synth", "--preset", preset, path)
	return path
}

// continued has a prompt continued, and returns the tokens with the probabilities of
// the likeliest, and how much of the prompt was in the cache.
func continued(t *testing.T, s *server, fields map[string]any) (text string, cached int) {
	t.Helper()
	fields["temperature"], fields["n_probs"] = 0, 3
	var answer struct {
		Truncated     bool
		Cached        int             `json:"tokens_cached"`
		Probabilities json.RawMessage `json:"completion_probabilities"`
		Timings       struct {
			Cached int `json:"cache_n"`
		}
	}
	s.want(t, "/completion", fields, &answer)
	if len(answer.Probabilities) < 100 {
		t.Fatalf("%v: %+v", fields, answer)
	}
	return fmt.Sprint(answer.Truncated, answer.Cached, string(answer.Probabilities)), answer.Timings.Cached
}

func TestEmbeddingsAreThoseOfResidentExperts(t *testing.T) {
	compare(t, func(s *server) []string {
		var answer struct {
			Data []struct{ Embedding []float64 }
		}
		s.want(t, "/v1/embeddings", map[string]any{"input": []string{"func main() {", "type Reader struct"}}, &answer)
		if len(answer.Data) != 2 || len(answer.Data[0].Embedding) != int(modelWidth(t)) {
			t.Fatalf("%+v", answer)
		}
		return []string{fmt.Sprint(answer.Data[0].Embedding), fmt.Sprint(answer.Data[1].Embedding)}
	}, "-m", model, "--embeddings", "--pooling", "mean", "-c", "256", "-np", "1")
}

func TestAnswersBeyondTheContextAreThoseOfResidentExperts(t *testing.T) {
	log := compare(t, func(s *server) []string {
		text, _ := continued(t, s, map[string]any{"prompt": "package main\n\nimport (", "n_predict": 260, "ignore_eos": true})
		return []string{text}
	}, "-m", model, "--context-shift", "-c", "256", "-np", "1")
	if !strings.Contains(log, "context shift") {
		t.Errorf("the context was not shifted: %s", tail(log))
	}
}

// A recurrent model cannot go back to where two prompts part, but to a checkpoint
// before that.
func TestCheckpointsAreThoseOfResidentExperts(t *testing.T) {
	recurrent := synth(t, "tiny-qwen35moe")
	begin := strings.Repeat("a b c d ", 20)
	log := compare(t, func(s *server) (answers []string) {
		for _, end := range []string{"first", "second", "first"} {
			text, _ := continued(t, s, map[string]any{"prompt": begin + end, "n_predict": 8})
			answers = append(answers, text)
		}
		return answers
	}, "-m", recurrent, "-c", "1024", "-np", "1", "-ub", "32", "-b", "32", "--ctx-checkpoints", "8", "--checkpoint-min-step", "0")
	if !strings.Contains(log, "restored context checkpoint") {
		t.Errorf("no checkpoint was used: %s", tail(log))
	}
}

func TestRouterStreamsEachModel(t *testing.T) {
	models := t.TempDir()
	for name, path := range map[string]string{"reference": model, "tiny": synth(t, "tiny-qwen3moe")} {
		path, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(models, name+".gguf")); err != nil {
			t.Fatal(err)
		}
	}
	compare(t, func(s *server) (answers []string) {
		for _, name := range []string{"reference", "tiny", "reference"} {
			text, _ := continued(t, s, map[string]any{"model": name, "prompt": "func main() {", "n_predict": 8})
			answers = append(answers, text)
		}
		return append(answers, routed(t, s)...)
	}, "--models-dir", models, "--models-max", "1", "-c", "256", "-np", "1")
}

// routed asks a router for changes of a pool, and returns what does not depend on
// whether there is one.
func routed(t *testing.T, s *server) (answers []string) {
	t.Helper()
	for _, body := range []string{"{", "{}", `{"model": "unknown", "slots": 0}`, `{"model": "reference", "model": "tiny"}`} {
		status, answer := s.send(t, "/les", body)
		if status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, status, answer)
		}
		answers = append(answers, string(answer))
	}
	status, answer := s.send(t, "/les", `{"model": "reference", "slots": 2}`)
	if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusOK}[s.variable == "LES=off"]; status != want {
		t.Errorf("%d %s", status, answer)
	}
	return answers
}
