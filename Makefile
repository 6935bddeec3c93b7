# Names for what the scripts do; the scripts work without make.

# Where make bench puts its results, and the 15 GB file that it writes once; it
# wants 18 GB of memory for the arms with everything resident.
BENCH_NAME ?= local
export BENCH_MODEL ?= build/35b-a3b.gguf

# Where make install puts programs, libraries and headers, below DESTDIR.
PREFIX ?= /usr/local

.PHONY: help setup build install dist deb demo test test-cross bench lint

help:
	@echo "make setup   install what is missing (apt, Homebrew)"
	@echo "make build   fetch and patch llama.cpp, build every program into build/bin"
	@echo "make install what is built, below DESTDIR and PREFIX (/usr/local)"
	@echo "make dist    the same as an archive, build/les-*.tar.gz, whose tree runs wherever it is unpacked"
	@echo "make deb     a Debian package of it, build/les_*.deb"
	@echo "make demo    build what is needed and run the reference model from flash"
	@echo "make test    every check, from a fresh checkout"
	@echo "make test-cross  cross builds for linux/arm64 and windows/amd64, run under emulators; see scripts/test-cross.sh"
	@echo "make bench   Go benchmarks; then the standard set of docs/BENCH.md on a 15 GB model: about an hour, as root"
	@echo "make lint    gofmt, go vet, shellcheck, the patch series and its budget"

setup:
	scripts/setup.sh

build:
	scripts/build.sh

install:
	DESTDIR=$(DESTDIR) cmake --install build --prefix $(PREFIX)

dist: build
	cmake --build build --target lesext-static
	scripts/dist.sh

deb: build
	cmake --build build --target lesext-static
	scripts/deb.sh

demo:
	scripts/demo.sh

test:
	scripts/test.sh

test-cross:
	scripts/test-cross.sh arm64
	scripts/test-cross.sh windows

bench: build
	go test -run '^$$' -bench . -benchmem ./lesext/...
	scripts/bench.sh $(BENCH_NAME)

lint:
	test -z "$$(find cgo cmd lesext scripts tools -name '*.go' 2>/dev/null | xargs gofmt -l | tee /dev/stderr)"
	go vet ./lesext/... ./scripts/...
	shellcheck scripts/*.sh .ci/run
	scripts/llama.sh verify
	scripts/llama.sh stats
