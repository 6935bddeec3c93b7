package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/les-project/les/cgo/les"
	"github.com/les-project/les/lesext/probe"
	"github.com/les-project/les/lesext/readq"
	"github.com/les-project/les/lesext/sched"
	"github.com/urfave/cli/v2"
)

// doctorSecondsMax bounds how long doctor may measure.
const doctorSecondsMax = 60

func doctorCommand() *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "measure the flash under a path and say which settings it implies",
		ArgsUsage: "[PATH]",
		Description: "Reads a file with several read sizes and numbers of reads in flight, past the " +
			"page cache and through it. Of a directory (default: the working directory) a " +
			"temporary file is written first and removed. For a GGUF file with experts it also " +
			"says how many tokens a second the flash allows.",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "seconds", Value: 20, Usage: "time to measure, at most 60"},
			jsonFlag(),
		},
		Action: runDoctor,
	}
}

// diagnosis is what doctor reports; its field names are those of --json.
type diagnosis struct {
	Path        string `json:"path"`
	FileBytes   int64  `json:"file_bytes"`   // of the file that was read
	DeviceBytes int64  `json:"device_bytes"` // that it takes on the device
	Temporary   bool   `json:"temporary"`    // the file was written for this
	probe.System
	DirectRefused   string         `json:"direct_refused"`     // why there are no direct reads; empty when there are
	ProcessorLimit  float64        `json:"processor_limit"`    // of the control group, 0 for none
	MemoryLimit     int64          `json:"memory_limit_bytes"` // of the control group, 0 for none
	MemoryBytes     int64          `json:"memory_bytes"`       // what a run without --les-budget plans for
	Model           *doctorModel   `json:"model"`              // null when the file is no model with experts
	Samples         []probe.Sample `json:"samples"`
	Advice          probe.Advice   `json:"advice"`
	MeasuredSeconds float64        `json:"measured_seconds"`

	modelError error // why a file named .gguf could not be looked at
}

// doctorModel is what a model demands.
type doctorModel struct {
	Architecture string `json:"architecture"`
	ExpertBytes  int64  `json:"expert_bytes"` // the largest expert
	TokenBytes   int64  `json:"token_bytes"`  // experts of one token, nothing cached
	FloorBytes   int64  `json:"floor_bytes"`  // least budget that can run
}

func runDoctor(c *cli.Context) error {
	path := "."
	if c.NArg() > 0 {
		var err error
		if path, err = onePath(c, "PATH"); err != nil {
			return err
		}
	}
	seconds := c.Int("seconds")
	if seconds < 1 || seconds > doctorSecondsMax {
		return usagef("--seconds: %d is not between 1 and %d", seconds, doctorSecondsMax)
	}
	if err := checkReport(c); err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context)
	defer stop()
	d, err := diagnose(ctx, path, time.Duration(seconds)*time.Second, newProgressLine(c.App.ErrWriter))
	if err != nil {
		return err
	}
	d.print(c.App.Writer)
	if name := c.String("json"); name != "" {
		return writeJSON(name, d)
	}
	return nil
}

// diagnose looks at everything.
func diagnose(ctx context.Context, path string, budget time.Duration, line *progressLine) (d *diagnosis, err error) {
	defer line.clear()
	file, err := openProbeFile(ctx, path, line)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.remove()) }()
	d = &diagnosis{Path: path, FileBytes: file.bytes, DeviceBytes: file.deviceBytes, Temporary: file.temporary}
	if d.System, err = probe.Inspect(file.path); err != nil {
		return nil, err
	}
	d.askLimits()
	d.askModel(file)
	begin := time.Now()
	if err := d.measure(ctx, file, budget, line); err != nil {
		return nil, err
	}
	d.MeasuredSeconds = time.Since(begin).Seconds()
	d.advise()
	return d, nil
}

// askLimits finds out what this process may use.
func (d *diagnosis) askLimits() {
	d.MemoryLimit = les.MemoryGroupLimit()
	d.MemoryBytes, _ = memoryForProcess() // 0 where the system does not tell
	d.ProcessorLimit, _ = processorLimit()
}

// askModel reads what a model demands. A file that is none is measured all the
// same; only one that is called a model is told that it is not.
func (d *diagnosis) askModel(file *probeFile) {
	if file.temporary || !isGGUF(file.path) {
		return
	}
	report, err := inspectAsRun(file.path)
	if err != nil {
		d.modelError = err
		return
	}
	if report.MoELayers > 0 {
		d.Model = &doctorModel{report.Architecture, report.ExpertBytes, report.TokenBytes, report.FloorBytes}
	}
}

// inspectAsRun inspects a model for what run does by default.
func inspectAsRun(path string) (*inspection, error) {
	file, err := readModelFile(path)
	if err != nil {
		return nil, err
	}
	return inspect(file, contextDefault.length(defaultDoctorContext, file.Trained, io.Discard), defaultDoctorUbatch)
}

// Context and batch that the floor of a model is for: the defaults of run.
const (
	defaultDoctorContext = 4096
	defaultDoctorUbatch  = 512
)

// isGGUF looks at the first bytes of a file.
func isGGUF(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [4]byte
	n, _ := f.Read(magic[:])
	return string(magic[:n]) == "GGUF"
}

// directShare is the part of the time that direct reads get: they decide, since
// LES reads directly wherever it can.
const directShare = 0.6

// measure reads the file directly and then through the page cache.
func (d *diagnosis) measure(ctx context.Context, file *probeFile, budget time.Duration, line *progressLine) error {
	direct := time.Duration(directShare * float64(budget))
	err := d.measureWay(ctx, file, readq.FilesOptions{ForceDirect: true}, direct, line)
	switch {
	case errors.Is(err, readq.ErrNoDirect):
		d.DirectRefused = err.Error()
		direct = 0
	case err != nil:
		return err
	}
	return d.measureWay(ctx, file, readq.FilesOptions{Buffered: true}, budget-direct, line)
}

// measureWay takes the samples of one way of reading.
func (d *diagnosis) measureWay(ctx context.Context, file *probeFile, options readq.FilesOptions, budget time.Duration, line *progressLine) (err error) {
	files, err := readq.OpenFiles([]string{file.path}, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	begin := time.Now()
	config := probe.Config{
		Reader: files, FileBytes: files.Sizes(), Direct: !options.Buffered, BudgetNS: int64(budget),
		Now: func() int64 { return int64(time.Since(begin)) },
		Progress: func(done, all int, s probe.Sample) {
			line.show("doctor: %s reads, %d of %d: %d KiB, %d in flight, %s/s",
				wayName(s.Direct), done, all, s.ReadBytes>>10, s.Depth, formatSize(int64(s.BytesPerSecond)))
		},
	}
	if options.Buffered {
		config.Before = func() error { return probe.DropCache(file.path) }
	}
	samples, err := probe.Measure(ctx, config)
	if err == nil {
		d.Samples = append(d.Samples, samples...)
	}
	return err
}

// advise draws the conclusions.
func (d *diagnosis) advise() {
	f := probe.Findings{
		System: d.System, Samples: d.Samples, FileBytes: d.FileBytes, DeviceBytes: d.DeviceBytes,
		MemoryBytes: d.MemoryBytes, Processors: float64(runtime.NumCPU()), Lanes: sched.LanesDefault,
	}
	if d.ProcessorLimit > 0 {
		f.Processors = min(f.Processors, d.ProcessorLimit)
	}
	if d.DirectRefused != "" {
		f.NoDirect = errors.New(d.DirectRefused)
	}
	if d.Model != nil {
		f.Demands = probe.Demands{ExpertBytes: d.Model.ExpertBytes, TokenBytes: d.Model.TokenBytes, FloorBytes: d.Model.FloorBytes}
	}
	d.Advice = probe.Advise(f)
	if d.modelError != nil {
		d.Advice.Problems = append(d.Advice.Problems, fmt.Sprintf("The file begins like a model but is none that can be loaded: %v.", d.modelError))
	}
}
