package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/cgo/llama"
	"github.com/les-project/les/lesext/probe"
	"github.com/les-project/les/lesext/system"
)

// benchRun measures arms in turn: one sample of each, then the next of each,
// so that what changes on the machine changes for all of them.
type benchRun struct {
	ctx       context.Context
	log       io.Writer
	arms      []*armRun
	rounds    int
	perSample bool // a process for each sample instead of one for each arm
	flash     []*flashRun
	started   time.Time
}

// armRun is one arm and what has been measured of it.
type armRun struct {
	benchArm
	source  benchSource
	paths   []string // of the model's parts
	opened  benchOpened
	shown   bool
	samples []benchSample
}

// newBenchRun makes the sources of all arms. A single arm without limits needs
// no process of its own.
func newBenchRun(ctx context.Context, log io.Writer, opts benchOptions) (*benchRun, error) {
	r := &benchRun{ctx: ctx, log: log, rounds: opts.rounds, started: time.Now()}
	var childLog io.Writer
	if opts.verbose {
		childLog = log
	}
	drafted := map[benchArm]benchSource{} // arms that draft with one drafter share a process
	for _, arm := range opts.arms {
		run := &armRun{benchArm: arm}
		group := arm.undrafted()
		switch {
		case arm.stockLoad != "":
			run.source = &stockSource{ctx: ctx, program: opts.stock.program, arm: arm, log: childLog}
		case len(opts.arms) == 1 && arm.limits().none() && opts.processes != processesSample:
			run.source = &benchmark{ctx: ctx, log: log, settings: arm.benchSettings}
		case arm.Draft != nil && drafted[group] != nil:
			run.source = drafted[group]
		default:
			run.source = &processSource{ctx: ctx, arm: arm, log: childLog}
		}
		if arm.Draft != nil {
			drafted[group] = run.source
		}
		r.arms = append(r.arms, run)
	}
	return r, r.prepare(opts)
}

// prepare reads what must be known of the models, and refuses limits that the
// kernel does not grant before anything is measured.
func (r *benchRun) prepare(opts benchOptions) error {
	files, err := r.readFiles()
	if err != nil {
		return err
	}
	if err := checkBenchModels(opts, files); err != nil {
		return err
	}
	r.dropOptional(files)
	if err := errors.Join(r.checkNames(), r.checkTexts()); err != nil {
		return err
	}
	for _, arm := range r.arms {
		arm.paths = files[arm.Model].paths
		group, err := arm.limits().enter()
		if err = errors.Join(err, group.remove()); err != nil {
			return err
		}
	}
	r.perSample = opts.processes == processesSample
	if opts.processes == processesAuto {
		r.perSample = len(r.arms) > 1 && !r.fitTogether(files)
	}
	if len(r.arms) > 1 {
		r.addFlash(files)
	}
	return nil
}

// readFiles reads the metadata of all models.
func (r *benchRun) readFiles() (map[string]*modelFile, error) {
	files := map[string]*modelFile{}
	for _, arm := range r.arms {
		if files[arm.Model] != nil {
			continue
		}
		file, err := readModelFile(arm.Model)
		if err != nil {
			return nil, err
		}
		files[arm.Model] = file
	}
	return files, nil
}

// checkNames refuses files that processes of their own could not be told of.
func (r *benchRun) checkNames() error {
	for _, arm := range r.arms {
		names := []string{arm.Model, arm.Text}
		if arm.Draft != nil {
			names = append(names, arm.Draft.Path)
		}
		for _, name := range names {
			if _, here := arm.source.(*benchmark); !here && !utf8.ValidString(name) {
				return fmt.Errorf("%q: is not UTF-8, and arms are measured in processes that are told names as JSON", name)
			}
		}
	}
	return nil
}

// checkTexts refuses a text that is too short for an arm before any is measured.
func (r *benchRun) checkTexts() error {
	most := map[string]*armRun{} // by the model: the arm that takes most tokens
	for _, arm := range r.arms {
		if other := most[arm.Model]; arm.Text != "" && arm.stockLoad == "" && (other == nil || arm.textTokens() > other.textTokens()) {
			most[arm.Model] = arm
		}
	}
	for path, arm := range most {
		err := withVocabulary(path, func(model *llama.Model) error {
			_, err := readTextTokens(model, arm.benchSettings)
			return err
		})
		if err != nil {
			return r.explain(arm, err)
		}
	}
	return nil
}

// dropOptional leaves out ceilings that the memory there is does not allow.
func (r *benchRun) dropOptional(files map[string]*modelFile) {
	available, err := system.AvailableMemory()
	if err != nil {
		return
	}
	r.arms = slices.DeleteFunc(r.arms, func(arm *armRun) bool {
		need := files[arm.Model].totalBytes
		drop := arm.optional && need > les.BudgetOf(available)
		if drop {
			fmt.Fprintf(r.log, "%s is left out: %s do not fit into the %s of memory that are free\n", arm.name, formatSize(need), formatSize(available))
		}
		return drop
	})
}

// togetherShare is the part of the memory there is that all arms may take
// together: their need is an estimate.
const togetherShare = 0.5

// fitTogether says whether the processes of all arms may live side by side.
// Under a memory limit they may not: the page cache that one of them fills would
// be there for its next sample.
func (r *benchRun) fitTogether(files map[string]*modelFile) bool {
	available, err := system.AvailableMemory()
	if err != nil {
		return false
	}
	var sum int64
	counted := map[benchSource]bool{}
	for _, arm := range r.arms {
		if arm.memoryBytes > 0 {
			return false
		}
		if counted[arm.source] {
			continue
		}
		counted[arm.source] = true
		need := files[arm.Model].totalBytes
		if arm.BudgetBytes > 0 {
			need = min(need, arm.BudgetBytes)
		}
		sum += need
	}
	return float64(sum) < togetherShare*float64(available)
}

// run takes all samples and ends all processes.
func (r *benchRun) run() (err error) {
	defer func() {
		for _, arm := range r.arms {
			err = errors.Join(err, arm.source.close())
		}
	}()
	for round := range r.rounds {
		for _, flash := range r.flash {
			if err := flash.sample(r.ctx, round); err != nil {
				return err
			}
		}
		answer, err := r.recordAnswer(round)
		if err != nil {
			return r.explain(r.arms[0], err)
		}
		for _, arm := range r.arms {
			if err := r.take(arm, benchTurn{Round: round, Width: arm.width, Tokens: answer}); err != nil {
				return r.explain(arm, err)
			}
		}
	}
	return nil
}

// take measures one sample of an arm.
func (r *benchRun) take(arm *armRun, turn benchTurn) error {
	if arm.memoryBytes > 0 {
		for _, path := range arm.paths {
			if err := probe.DropCache(path); err != nil {
				return err
			}
		}
	}
	opened, err := arm.source.open()
	if err != nil {
		return err
	}
	if arm.opened = opened; !arm.shown {
		arm.shown = true
		r.describe(arm)
	}
	sample, err := arm.source.sample(turn)
	if err != nil {
		return err
	}
	arm.samples = append(arm.samples, sample)
	if r.perSample {
		err = arm.source.close()
	}
	if len(r.arms) > 1 {
		fmt.Fprintf(r.log, "round %d of %d, %s: %s\n", turn.Round+1, r.rounds, arm.name, sample.speeds())
	}
	return err
}

// describe prints what the arm streams.
func (r *benchRun) describe(arm *armRun) {
	prefix := ""
	if len(r.arms) > 1 {
		prefix = arm.name + ": "
	}
	fmt.Fprint(r.log, prefix+arm.opened.Description)
}

// explain names the arm where there are several.
func (r *benchRun) explain(arm *armRun, err error) error {
	if len(r.arms) == 1 || r.ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("arm %q: %w", arm.name, err)
}

// speeds are for people who watch.
func (s benchSample) speeds() string {
	text := ""
	if s.Prefill.Tokens > 0 {
		text = fmt.Sprintf("prefill %.2f tok/s, ", s.Prefill.speed())
	}
	if s.Decode.Tokens > 0 {
		text += fmt.Sprintf("decode %.2f tok/s, ", s.Decode.speed())
	}
	return text + "peak memory " + formatSize(max(s.PeakRSSBytes, s.PeakGroupBytes))
}

// flashRun measures the bandwidth of the flash under one model and limit, in
// the same rounds as the arms.
type flashRun struct {
	limits  kernelLimits
	probe   probeSettings
	log     io.Writer
	results []probeResult
}

// addFlash wants the bandwidth for each limit under which experts are read.
func (r *benchRun) addFlash(files map[string]*modelFile) {
	for _, arm := range r.arms {
		file := files[arm.Model]
		if arm.stockLoad != "" || arm.resident() || len(file.layers) == 0 || r.flashOf(arm) != nil {
			continue
		}
		limits := arm.limits()
		limits.memoryBytes = 0
		r.flash = append(r.flash, &flashRun{limits: limits, log: r.log, probe: probeSettings{
			Paths: file.paths, Bytes: probeBytes(file.layers[0].bytes / int64(max(1, file.layers[0].experts))),
			Depths: probeDepths, Seconds: probeSeconds,
		}})
	}
}

// flashOf is the measurement that holds for an arm.
func (r *benchRun) flashOf(arm *armRun) *flashRun {
	for _, flash := range r.flash {
		if flash.probe.Paths[0] == arm.paths[0] && flash.limits.bandwidthBytes == arm.bandwidthBytes {
			return flash
		}
	}
	return nil
}

// sample measures once, in a process of its own that the limit holds for.
func (f *flashRun) sample(ctx context.Context, round int) error {
	process, err := startWorker(ctx, f.limits, f.log)
	if err != nil {
		return err
	}
	settings := f.probe
	settings.Turn = int64(round)
	reply, err := process.ask(workerRequest{Probe: &settings})
	if err = errors.Join(err, process.close()); err != nil {
		return fmt.Errorf("bandwidth of %s: %w", settings.Paths[0], err)
	}
	f.results = append(f.results, *reply.Probe)
	return nil
}

// bandwidth is the spread over the rounds, in bytes a second.
func (f *flashRun) bandwidth() spread {
	var samples []float64
	for _, result := range f.results {
		samples = append(samples, result.BytesPerSecond)
	}
	return newSpread(samples)
}
