# Names for what the scripts do; the scripts work without make.

# The 15 GB file that make bench writes once; it wants 16 GB of memory for the
# comparison with everything resident.
BENCH_MODEL ?= build/35b-a3b.gguf

.PHONY: help setup build demo test bench lint

help:
	@echo "make setup   install what is missing (apt, Homebrew)"
	@echo "make build   fetch and patch llama.cpp, build every program into build/bin"
	@echo "make demo    build what is needed and run the reference model from flash"
	@echo "make test    every check, from a fresh checkout"
	@echo "make bench   Go benchmarks; then a 15 GB model in a 4 GiB memory cgroup against mmap (as root)"
	@echo "make lint    gofmt, go vet, shellcheck, the patch series and its budget"

setup:
	scripts/setup.sh

build:
	scripts/build.sh

demo:
	scripts/demo.sh

test:
	scripts/test.sh

bench: build
	go test -run '^$$' -bench . -benchmem ./lesext/...
	test -e $(BENCH_MODEL) || build/bin/lescli synth $(BENCH_MODEL) --preset 35b-a3b
	build/bin/lescli verify -m $(BENCH_MODEL) --les-slots floor,16 --prompt-tokens 5 --gen 2
	scripts/bench-mmap.sh $(BENCH_MODEL) build/bench-mmap

lint:
	test -z "$$(find cgo cmd lesext scripts tools -name '*.go' 2>/dev/null | xargs gofmt -l | tee /dev/stderr)"
	go vet ./lesext/... ./scripts/...
	shellcheck scripts/*.sh .ci/run
	scripts/llama.sh verify
	scripts/llama.sh stats
