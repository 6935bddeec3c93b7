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
	"strings"
	"testing"
	"time"
)

// server is a llama-server that answers.
type server struct {
	base     string
	variable string
	cmd      *exec.Cmd
	ended    chan struct{} // closed when the process has ended and been waited for
	text     bytes.Buffer  // complete then
}

// startServer starts one with a variable of LES in its environment.
func startServer(t *testing.T, variable string, args ...string) *server {
	t.Helper()
	port := freePort(t)
	s := &server{base: fmt.Sprintf("http://127.0.0.1:%d", port), variable: variable, ended: make(chan struct{})}
	s.cmd = exec.Command(filepath.Join(binDir(t), "llama-server"), append(args, "-t", "2", "--port", fmt.Sprint(port))...)
	s.cmd.Env = append(os.Environ(), variable, "OMP_WAIT_POLICY=passive")
	s.cmd.Stdout, s.cmd.Stderr = &s.text, &s.text
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	t.Cleanup(s.kill)
	deadline := time.After(2 * time.Minute)
	for !healthy(s.base) {
		select {
		case <-s.ended:
			t.Fatalf("the server ended before it answered: %s", tail(s.text.String()))
		case <-deadline:
			s.kill()
			t.Fatalf("the server does not start: %s", tail(s.text.String()))
		case <-time.After(100 * time.Millisecond):
		}
	}
	return s
}

// kill ends the server where it has not ended.
func (s *server) kill() {
	s.cmd.Process.Kill()
	<-s.ended
}

// stop ends the server and returns its log.
func (s *server) stop() (log string) {
	s.cmd.Process.Signal(os.Interrupt)
	<-s.ended
	return s.text.String()
}

// send sends a body as it is, or asks without one.
func (s *server) send(t *testing.T, path, body string) (status int, answer []byte) {
	t.Helper()
	var reply *http.Response
	var err error
	if body == "" {
		reply, err = http.Get(s.base + path)
	} else {
		reply, err = http.Post(s.base+path, "application/json", strings.NewReader(body))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	answer, err = io.ReadAll(reply.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply.StatusCode, answer
}

// want sends a request that must succeed, and reads the answer into result.
func (s *server) want(t *testing.T, path string, request, result any) {
	t.Helper()
	body := ""
	if request != nil {
		text, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		body = string(text)
	}
	status, answer := s.send(t, path, body)
	if err := json.Unmarshal(answer, result); status != http.StatusOK || err != nil {
		t.Fatalf("%s %s: %d %s %v", path, body, status, answer, err)
	}
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

func tail(text string) string { return text[max(0, len(text)-2000):] }

// metrics are the lines of LES.
func (s *server) metrics(t *testing.T) (lines string) {
	t.Helper()
	_, text := s.send(t, "/metrics", "")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "llamacpp:les_") {
			lines += line
		}
	}
	return lines
}

// lesPlan is what /props and POST /les say.
type lesPlan struct {
	LES        string `json:"les"`
	Model      string
	Slots      int
	Floor      int   `json:"floor_slots"`
	Budget     int64 `json:"budget_bytes"`
	Total      int64 `json:"plan_bytes"`
	FloorBytes int64 `json:"floor_bytes"`
	Process    int64 `json:"process_bytes"`
	SlotsBytes int64 `json:"slots_bytes"`
	Others     []lesPlan
}

func (s *server) props(t *testing.T) (p struct {
	LES      lesPlan `json:"les"`
	Sleeping bool    `json:"is_sleeping"`
}) {
	t.Helper()
	s.want(t, "/props", nil, &p)
	return p
}

func TestRouteRefusesWhatItCannotRead(t *testing.T) {
	s := startServer(t, "LES_SLOTS=1", "-m", model, "-c", "256", "-np", "1", "-a", "one,another")
	before := s.props(t).LES
	for _, test := range []struct{ body, want string }{
		{`{`, "not JSON"},
		{`{"slots": 1} x`, "not JSON"},
		{"{\"slots\": \"\x01\"}", "not JSON"},
		{"{\"slots\": \"\xff\"}", "not JSON"},
		{`{"slots": 1e999}`, "not JSON"},
		{`{"slots": NaN}`, "not JSON"},
		{`null`, "want"},
		{`[{"slots": 1}]`, "want"},
		{`{"slots": 1, "budget": "1G"}`, "want"},
		{`{"slots\u0000": 1}`, `unknown key "slots\u0000"`},
		{`{"slot": 1}`, `unknown key "slot"`},
		{`{"slots": 1, "lanes": 2}`, `unknown key "lanes"`},
		{`{"slots": 1, "slots": 2}`, "twice"},
		{`{"slots": "\":\"", "slots": 2}`, "twice"},
		{`{"slots": {"slots": 1}}`, "inside"},
		{`{"budget": "3G\u0000"}`, "budget: has a NUL"},
		{`{"slots": "1\u00002"}`, "slots: has a NUL"},
		{`{"slots": 99999999999999999999}`, "slots: "},
		{`{"slots": 4294967297}`, "slots: "},
		{`{"slots": 1.5}`, "slots: "},
		{`{"slots": true}`, "slots: "},
		{`{"slots": [1]}`, "slots: is a list"},
		{`{"slots": ` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}", "slots: is a list"},
		{`{"slots": "4"}`, "slots: is a string"},
		{`{"budget": 100000000.5}`, "budget: is a number with a fraction"},
		{`{"budget": 1e300}`, "budget: "},
		{`{"budget": -1}`, "budget: "},
		{`{"budget": 0}`, "budget: "},
		{`{"budget": null}`, "budget: "},
		{`{"model": "unknown", "slots": 0}`, "model: no streamed model has that name; there is les-ref.gguf"},
		{`{"model": "one\u0000", "slots": 0}`, "model: has a NUL"},
		{`{"model": 7}`, "model: is no name"},
	} {
		status, answer := s.send(t, "/les", test.body)
		var refused struct{ Error struct{ Message string } }
		if err := json.Unmarshal(answer, &refused); status != http.StatusBadRequest || err != nil || !strings.Contains(refused.Error.Message, test.want) {
			t.Errorf("%s: %d %s", test.body, status, answer)
		}
	}
	if reply, err := http.Post(s.base+"/les", "application/json", nil); err != nil || reply.StatusCode != http.StatusBadRequest {
		t.Errorf("an empty body: %+v %v", reply, err)
	} else if text, err := io.ReadAll(reply.Body); err != nil || !strings.Contains(string(text), "the body is empty; {} changes nothing") {
		t.Errorf("an empty body: %s %v", text, err)
	}
	var after, same lesPlan
	s.want(t, "/les", nil, &after) // GET
	s.want(t, "/les", map[string]any{}, &same)
	if after.Slots != before.Slots || after.LES != "on" || same.Slots != before.Slots {
		t.Errorf("%+v, %+v; %d slots before what was refused", after, same, before.Slots)
	}
	for _, body := range []string{`{"slots": 0}`, `{"slots": 2, "model": "les-ref.gguf"}`, `{"model": "another", "slots": "floor"}`} {
		if status, answer := s.send(t, "/les", body); status != http.StatusOK {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

func TestMetricsStayWhileTheServerSleeps(t *testing.T) {
	s := startServer(t, "LES_SLOTS=1", "-m", model, "-c", "256", "-np", "1", "--metrics", "--sleep-idle-seconds", "1")
	complete(t, s.base, "func main() {")
	awake := s.metrics(t)
	awaitSleep(t, s)
	if asleep := s.metrics(t); asleep != awake || awake == "" {
		t.Errorf("awake:\n%s\nasleep:\n%s", awake, asleep)
	}
	if status, answer := s.send(t, "/les", `{"slots": 0}`); status != http.StatusBadRequest || !strings.Contains(string(answer), "the server sleeps") {
		t.Errorf("%d %s", status, answer)
	}
	complete(t, s.base, "func main() {")
	if again := s.metrics(t); again == awake || strings.Count(again, "\n") != strings.Count(awake, "\n") {
		t.Errorf("after waking up:\n%s", again)
	}
}

// awaitSleep waits until a server sleeps.
func awaitSleep(t *testing.T, s *server) {
	t.Helper()
	for begin := time.Now(); !s.props(t).Sleeping; time.Sleep(50 * time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatal("the server does not sleep")
		}
	}
}

// A drafter that nobody drafts with is freed at the start; names of series must not
// depend on whether the server sleeps.
func TestSeriesKeepTheirNamesWhileTheServerSleeps(t *testing.T) {
	names := func(s *server) (list string) {
		for line := range strings.Lines(s.metrics(t)) {
			list += strings.Fields(line)[0] + "\n"
		}
		return list
	}
	for _, test := range []struct {
		args  []string
		lines int
	}{{nil, 22}, {[]string{"--spec-type", "draft-simple"}, 44}} {
		s := startServer(t, "LES_SLOTS=1", append(test.args, "-m", model, "-md", model, "-c", "256", "-np", "1", "--metrics", "--sleep-idle-seconds", "1")...)
		complete(t, s.base, "func main() {")
		awake := names(s)
		awaitSleep(t, s)
		asleep := names(s)
		complete(t, s.base, "func main() {")
		if again := names(s); asleep != awake || again != awake || strings.Count(awake, "\n") != test.lines {
			t.Errorf("%v: awake:\n%s\nasleep:\n%s\nawake again:\n%s", test.args, awake, asleep, again)
		}
	}
}

func TestSeveralStreamedModelsAreToldApart(t *testing.T) {
	s := startServer(t, "LES_SLOTS=1", "-m", model, "-c", "256", "-np", "1", "--metrics", "--spec-type", "draft-simple", "-md", model)
	complete(t, s.base, "func main() {")
	for _, name := range []string{"les-ref.gguf", "les-ref.gguf#2"} {
		if lines := s.metrics(t); strings.Count(lines, `{model="`+name+`"} `) != 22 || strings.Count(lines, "\n") != 44 {
			t.Errorf("%s:\n%s", name, lines)
		}
	}
	var changed lesPlan
	s.want(t, "/les", map[string]any{"model": "les-ref.gguf#2", "slots": 5}, &changed)
	if changed.Model != "les-ref.gguf" || changed.Slots != changed.Floor+6 || len(changed.Others) != 1 {
		t.Fatalf("%+v", changed)
	}
	if other := changed.Others[0]; other.Model != "les-ref.gguf#2" || other.Slots != other.Floor+6*5 {
		t.Errorf("%+v", other)
	}
	s.want(t, "/les", map[string]any{"slots": 0}, &changed)
	if told := s.props(t).LES; told.Slots != told.Floor || told.Others[0].Slots != changed.Others[0].Slots {
		t.Errorf("%+v", told)
	}
}
