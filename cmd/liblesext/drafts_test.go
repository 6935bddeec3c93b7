package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

const drafter = root + "/models/les-ref-dspark.gguf"

// TestControllerRulesOtherPrograms has llama-server draft, with LES off and on:
// the text is the same, the widths are not.
func TestControllerRulesOtherPrograms(t *testing.T) {
	// In F32 steps of different widths differ least.
	float := filepath.Join(t.TempDir(), "f32.gguf")
	succeed(t, nil, filepath.Join(binDir(t), "llama-quantize"), "--allow-requantize", model, float, "F32")
	prompts := []string{"func (r *Reader) Read(p []byte) (n int, err error) {\n", "func main() {", "type Writer struct {\n"}
	want, log := serve(t, "LES=off", float, prompts)
	if strings.Contains(log, "drafts:") {
		t.Error("somebody decides although LES is off")
	}
	got, log := serve(t, "LES_SLOTS=floor", float, prompts)
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%q\nwith LES off %q", got[i], want[i])
		}
	}
	// Without a decision every step would verify a whole block of 7 tokens.
	told := regexp.MustCompile(`LES: drafts: (\d+) tokens in (\d+) steps, .*steps by verified tokens: (.*)`).FindStringSubmatch(log)
	if told == nil || strings.Count(told[3], ":") < 2 {
		t.Errorf("the widths are %v; %s", told, tail(log))
	}
}

// serve starts a server with four sequences, has prompts of different lengths
// continued one after the other, the first one again at the end, then all at once,
// so that drafts of several sequences are verified in one step, has answers written
// that a grammar constrains, and returns the answers and the log.
func serve(t *testing.T, variable, model string, prompts []string) (answers []string, log string) {
	t.Helper()
	server := startServer(t, variable, "-m", model, "--spec-type", "draft-dspark", "-md", drafter, "--spec-draft-n-max", "7",
		"--no-repack", "-c", "1024", "-np", "4", "-v")
	base := server.base
	for _, prompt := range append(prompts, prompts[0]) {
		answers = append(answers, complete(t, base, prompt))
	}
	if answers[len(prompts)] != answers[0] {
		t.Errorf("%s: the first prompt again gives %q, not %q", variable, answers[len(prompts)], answers[0])
	}
	for i, answer := range together(t, base, append(prompts, prompts[0])) {
		if answer != answers[i] {
			t.Errorf("%s: beside other sequences %q\nalone %q", variable, answer, answers[i])
		}
	}
	answers = append(answers, constrained(t, base)...)
	return answers, server.stop()
}

// together has all prompts continued at the same time.
func together(t *testing.T, base string, prompts []string) []string {
	t.Helper()
	answers, errs := make([]string, len(prompts)), make([]error, len(prompts))
	var asked sync.WaitGroup
	for i, prompt := range prompts {
		asked.Go(func() { answers[i], errs[i] = ask(base, prompt) })
	}
	asked.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return answers
}

// constrained asks for JSON of a schema, and for text that a grammar rules from a
// trigger on, which is more than one token and may lie across drafts.
func constrained(t *testing.T, base string) (answers []string) {
	t.Helper()
	for _, test := range []struct {
		request map[string]any
		want    *regexp.Regexp
	}{
		{map[string]any{"prompt": "var x = ", "json_schema": map[string]any{
			"type": "object", "required": []string{"kind", "n"}, "additionalProperties": false, "properties": map[string]any{
				"kind": map[string]any{"enum": []string{"left", "right"}}, "n": map[string]any{"type": "integer", "minimum": 1, "maximum": 9}}}},
			regexp.MustCompile(`^\{ *"kind" *: *"(left|right)" *, *"n" *: *[1-9] *\}$`)},
		{map[string]any{"prompt": "func main() {\n", "grammar_lazy": true, "grammar": `root ::= "new file" (" left" | " right") "\n"`,
			"grammar_triggers": []any{map[string]any{"type": 1, "value": "new file"}}},
			regexp.MustCompile(`(?s)^.*new file (left|right)\n$`)},
	} {
		answer, err := post(base, test.request)
		if err != nil {
			t.Fatal(err)
		}
		if !test.want.MatchString(answer) {
			t.Errorf("%v: %q", test.request, answer)
		}
		answers = append(answers, answer)
	}
	return answers
}

func complete(t *testing.T, base, prompt string) string {
	t.Helper()
	answer, err := ask(base, prompt)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// ask has a prompt continued by the likeliest tokens.
func ask(base, prompt string) (string, error) { return post(base, map[string]any{"prompt": prompt}) }

// post sends a request for at most 48 of the likeliest tokens.
func post(base string, fields map[string]any) (string, error) {
	fields["n_predict"], fields["temperature"] = 48, 0
	request, _ := json.Marshal(fields)
	reply, err := http.Post(base+"/completion", "application/json", bytes.NewReader(request))
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	var answer struct{ Content string }
	if err != nil || json.Unmarshal(body, &answer) != nil || answer.Content == "" {
		return "", fmt.Errorf("the server says %q: %v", body, err)
	}
	return answer.Content, nil
}
