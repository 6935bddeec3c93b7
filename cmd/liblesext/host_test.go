package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestHostKeepsItsSignalHandlersAndForks(t *testing.T) {
	program := compile(t, "testdata/host.c", headers()...)
	r := succeed(t, []string{"LES_SLOTS=floor"}, program, model)
	if r.stdout != "ok\n" {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
}

// Without les_os_trim glibc keeps up to tens of MiB of what is freed, more in one cycle
// than in another.
func TestMemoryFilesAndThreadsAreFlatOverLoads(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	r := succeed(t, []string{"LES_SLOTS=floor", "OMP_WAIT_POLICY=passive"}, app, model, "12")
	list := cycles(t, r.stdout)
	third, last := list[2], list[len(list)-1]
	if last.openFiles != third.openFiles {
		t.Errorf("%d open files after the third load, %d after the last", third.openFiles, last.openFiles)
	}
	// The system's threads come from Go's pool, which has a few more or fewer at any time.
	if last.threads > third.threads+4 {
		t.Errorf("%d threads after the third load, %d after the last", third.threads, last.threads)
	}
	// A model's slots and weights are 12 MiB: one of which a part is not freed shows.
	if last.rssKiB > third.rssKiB+2<<10 {
		t.Errorf("%d KiB resident after the third load, %d after the last", third.rssKiB, last.rssKiB)
	}
}

// TestApplicationOfStockHeadersRunsUnchanged builds against the headers of the
// unpatched llama.cpp, as an application would that knows nothing of this project.
func TestApplicationOfStockHeadersRunsUnchanged(t *testing.T) {
	stock := t.TempDir()
	for _, folder := range []string{"include", "ggml/include"} {
		names, err := exec.Command("git", "-C", root+"/llama/llama.cpp", "ls-tree", "--name-only", "les-base:"+folder).Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range strings.Fields(string(names)) {
			text, err := exec.Command("git", "-C", root+"/llama/llama.cpp", "show", "les-base:"+folder+"/"+name).Output()
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(stock, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	app := compile(t, "testdata/app.c", stock)
	resident := cycles(t, succeed(t, []string{"LES=off"}, app, model, "1").stdout)[0]
	streamed := cycles(t, succeed(t, []string{"LES_SLOTS=floor"}, app, model, "1").stdout)[0]
	if streamed.engine != 1 || streamed.hash != resident.hash {
		t.Errorf("streamed %+v, resident %+v", streamed, resident)
	}
}

// TestMissingEngine runs beside copies of the libraries without the engine.
func TestMissingEngine(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	dir := t.TempDir()
	libraries, err := filepath.Glob(filepath.Join(binDir(t), "lib*.so*"))
	if err != nil || len(libraries) == 0 {
		t.Fatal(err)
	}
	for _, library := range libraries {
		if !strings.Contains(library, "lesext") {
			if text, err := exec.Command("cp", "-a", library, dir).CombinedOutput(); err != nil {
				t.Fatalf("%s", text)
			}
		}
	}
	path := "LD_LIBRARY_PATH=" + dir
	r := run(t, []string{path, "LES=on"}, "env", "-u", "LD_PRELOAD", app, model, "1")
	if r.code != 1 || !strings.Contains(r.stderr, "cannot stream: liblesext-engine.so") {
		t.Errorf("on: exit code %d: %s", r.code, r.stderr)
	}
	if r := run(t, []string{path, "LES=auto"}, app, model, "1"); r.code != 0 {
		t.Errorf("auto: exit code %d: %s", r.code, r.stderr)
	}
}

// Go's runtime, which comes with the engine, ends a process that has too few addresses
// for it. The engine is not opened in one.
func TestLimitOfAddressesIsRefusedAndNotFatal(t *testing.T) {
	if runtime.GOOS == "darwin" {
		t.Skip("ulimit -v binds nothing here")
	}
	app := compile(t, "testdata/app.c", headers()...)
	resident := cycles(t, succeed(t, []string{"LES=off"}, app, model, "1").stdout)[0]
	limited := func(kib, variable string) result {
		return run(t, []string{variable}, "sh", "-c", `ulimit -v "$0" && exec "$@"`, kib, app, model, "1")
	}
	for _, kib := range []string{"250000", "800000", "1300000", "2000000"} {
		if r := limited(kib, "LES=on"); r.code != 1 || !strings.Contains(r.stderr, "cannot stream: the limit of addresses of this process (ulimit -v) leaves less than") {
			t.Errorf("%s KiB: exit code %d: %s", kib, r.code, r.stderr)
		}
	}
	if c := cycles(t, limited("2300000", "LES_SLOTS=floor").stdout)[0]; c.hash != resident.hash || c.engine != 1 {
		t.Errorf("%+v, resident %+v", c, resident)
	}
}

func TestDamagedModelsFailTheLoad(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	whole, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	for name, bytes := range map[string][]byte{"empty": nil, "metadata cut off": whole[:1000], "tensors cut off": whole[:len(whole)/2], "no model": []byte("text")} {
		path := filepath.Join(t.TempDir(), "damaged.gguf")
		if err := os.WriteFile(path, bytes, 0o600); err != nil {
			t.Fatal(err)
		}
		if r := run(t, []string{"LES_SLOTS=floor"}, app, path, "1"); r.code != 1 {
			t.Errorf("%s: exit code %d: %s", name, r.code, r.stderr)
		}
	}
	if r := run(t, []string{"LES_SLOTS=floor"}, app, "/does/not/exist.gguf", "1"); r.code != 1 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

// refusal runs a program that is not to load its model. A program of llama.cpp's
// prints its log on a thread of its own, which its end may cut off in the middle
// of a line: then it is run again.
func refusal(t *testing.T, program string, args ...string) (r result) {
	t.Helper()
	for range 10 {
		r = run(t, []string{"LES=on"}, program, args...)
		if strings.Contains(r.stderr, "ffn_") {
			break
		}
	}
	return r
}

func TestConflictsAreRefusedOrStayOut(t *testing.T) {
	program := filepath.Join(binDir(t), "llama-completion")
	args := []string{"-m", model, "-p", "x", "-n", "2", "--temp", "0", "-no-cnv", "-c", "64", "-t", "2"}
	for _, conflict := range []string{"--cpu-moe", `--override-tensor blk\.1\.ffn_up_exps=CPU`} {
		with := append(strings.Fields(conflict), args...)
		r := refusal(t, program, with...)
		if r.code == 0 || !strings.Contains(r.stderr, "an override of buffer types") || !strings.Contains(r.stderr, "ffn_") {
			t.Errorf("%s: exit code %d: %s", conflict, r.code, r.stderr)
		}
		if r := run(t, []string{"LES=auto"}, program, with...); r.code != 0 {
			t.Errorf("%s: auto: exit code %d: %s", conflict, r.code, r.stderr)
		}
	}
	for _, allowed := range []string{"--load-mode mlock", "--load-mode none", "--load-mode dio", "-ngl 99", `--override-tensor attn_q=CPU`} {
		r := run(t, []string{"LES_SLOTS=2"}, program, append(strings.Fields(allowed+" -v"), args...)...)
		if r.code != 0 || !strings.Contains(r.stderr, "expert slots for") {
			t.Errorf("%s: exit code %d: %s", allowed, r.code, r.stderr)
		}
	}
}

func TestWarmFileIsWrittenAndReadAgain(t *testing.T) {
	app := compile(t, "testdata/app.c", headers()...)
	name := filepath.Join(t.TempDir(), "hot")
	variables := []string{"LES_SLOTS=8", "LES_WARM=" + name}
	first := cycles(t, succeed(t, variables, app, model, "1").stdout)[0]
	info, err := os.Stat(name)
	if err != nil || info.Size() < 100 {
		t.Fatalf("%v, %v", info, err)
	}
	if again := cycles(t, succeed(t, variables, app, model, "2").stdout); again[1].hash != first.hash {
		t.Error("a warm file changes the result")
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 255)) // has no room for a temporary name
	if r := run(t, []string{"LES_WARM=" + long}, app, model, "1"); r.code != 1 || !strings.Contains(r.stderr, "warm: ") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	r := run(t, []string{"LES_WARM=" + model}, app, model, "1")
	if r.code != 1 || !strings.Contains(r.stderr, "is there and is not a warm file") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestReadThatFailsFailsTheDecodeAndTheNextOneWorks(t *testing.T) {
	program := compile(t, "testdata/faulty.c", headers()...)
	path := filepath.Join(t.TempDir(), "copy.gguf")
	whole, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(t, []string{"LES_SLOTS=floor"}, program, path)
	if r.code != 0 || r.stdout != "ok\n" {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	for _, part := range []string{"LES: ", path, "expert", "layer"} {
		if !strings.Contains(r.stderr, part) {
			t.Errorf("the log does not have %q: %s", part, r.stderr)
		}
	}
}

func TestFunctionsOfTheHeaderDoWhatItSays(t *testing.T) {
	program := compile(t, "testdata/api.c", append(headers(), "csrc")...)
	if r := run(t, nil, program, model); r.stdout != "ok\n" || r.stderr != "" {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
}
