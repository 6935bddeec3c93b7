package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const drafter = root + "/models/les-ref-dspark.gguf"

// TestControllerRulesOtherPrograms has llama-server draft, with LES off and on:
// the text is the same, the widths are not.
func TestControllerRulesOtherPrograms(t *testing.T) {
	program := filepath.Join(binDir(t), "llama-server")
	// In F32 steps of different widths differ least.
	float := filepath.Join(t.TempDir(), "f32.gguf")
	succeed(t, nil, filepath.Join(binDir(t), "llama-quantize"), "--allow-requantize", model, float, "F32")
	prompts := []string{"func (r *Reader) Read(p []byte) (n int, err error) {\n", "func main() {", "type Writer struct {\n"}
	want, log := serve(t, "LES=off", program, float, prompts)
	if strings.Contains(log, "drafts:") {
		t.Error("somebody decides although LES is off")
	}
	got, log := serve(t, "LES_SLOTS=floor", program, float, prompts)
	for i := range prompts {
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

// serve starts a server with two sequences, has prompts of different lengths
// continued, the first one twice, and returns the answers and the log.
func serve(t *testing.T, variable, program, model string, prompts []string) (answers []string, log string) {
	t.Helper()
	port := freePort(t)
	cmd := exec.Command(program, "-m", model, "--spec-type", "draft-dspark", "-md", drafter, "--spec-draft-n-max", "7", "--no-repack",
		"-c", "1024", "-np", "2", "-t", "2", "--port", fmt.Sprint(port), "-v")
	cmd.Env = append(os.Environ(), variable)
	var text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	for begin := time.Now(); !healthy(base); time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > 2*time.Minute {
			t.Fatalf("the server does not start: %s", tail(text.String()))
		}
	}
	for _, prompt := range append(prompts, prompts[0]) {
		answers = append(answers, complete(t, base, prompt))
	}
	if answers[len(prompts)] != answers[0] {
		t.Errorf("%s: the first prompt again gives %q, not %q", variable, answers[len(prompts)], answers[0])
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	return answers, text.String()
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

func healthy(base string) bool {
	reply, err := http.Get(base + "/health")
	if err != nil {
		return false
	}
	reply.Body.Close()
	return reply.StatusCode == http.StatusOK
}

func complete(t *testing.T, base, prompt string) string {
	t.Helper()
	request, _ := json.Marshal(map[string]any{"prompt": prompt, "n_predict": 48, "temperature": 0})
	reply, err := http.Post(base+"/completion", "application/json", bytes.NewReader(request))
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	var answer struct{ Content string }
	if err != nil || json.Unmarshal(body, &answer) != nil || answer.Content == "" {
		t.Fatalf("%v: %s", err, body)
	}
	return answer.Content
}

func tail(text string) string { return text[max(0, len(text)-2000):] }
