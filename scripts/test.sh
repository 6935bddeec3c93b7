#!/usr/bin/env bash
# Every check of the project, from a fresh checkout: tools, build, static checks,
# tests of the scripts, of pure Go, of the cgo packages, of the C side, and the
# bit-identity matrix. Goes on after a failure and ends with one line of totals;
# its status says whether all of it passed. A skip that is not listed in
# scripts/expected-skips.txt counts as a failure. It takes no arguments: a part is run by
# its own script, scripts/test-*.sh, or by scripts/go.sh test ./PACKAGE/...
#
# Environment: LES_BUILD_DIR (build), LES_EXPECTED_SKIPS (another list).
set -uo pipefail

case ${1:-} in
'') ;;
-h | --help) sed -n '2,/^set /{/^set /d;s/^#$//;s/^# //;p}' "$0"; exit 0 ;;
*) echo "test.sh: it takes no arguments, not $1; --help says more" >&2; exit 2 ;;
esac

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
allow=${LES_EXPECTED_SKIPS:-$root/scripts/expected-skips.txt}
logs=$build/test
totals=$logs/totals.txt
started=$SECONDS
cd "$root" || exit

# What the tests run; the matrix builds more itself if it needs more.
targets=(lescli lesext lesext-static test-llama-archs llama-gguf-split llama-quantize llama-imatrix
    llama-completion llama-perplexity llama-bench llama-server llama-cli llama-mtmd-cli)

count() { echo "$@" >>"$totals"; }

# check runs a command; its output is shown only when it fails.
check() {
    local name=$1 log status=0 began=$SECONDS
    shift
    log=$logs/$name.log
    "$@" >"$log" 2>&1 </dev/null || status=$?
    if [ "$status" -eq 0 ]; then
        printf 'ok    %s (%d s)\n' "$name" $((SECONDS - began))
        count 1 0 0 0
    else
        printf 'FAIL  %s (status %d), the end of %s:\n' "$name" "$status" "$log"
        tail -n 60 "$log" | sed 's/^/      /'
        count 0 1 0 0
    fi
    return "$status"
}

skip() {
    printf 'skip  %s: %s\n' "$1" "$2"
    if awk -v name="$1" '$1 == "script" && $2 == name { found = 1 } END { exit !found }' "$allow"; then
        count 0 0 1 0
    else
        printf 'UNEXPECTED SKIP script %s\n' "$1"
        count 0 0 1 1
    fi
}

# go_test runs a `go test -json` command and lets testsum read it. A failure that leaves
# no event (a flag or pattern refused) shows in the status of the go command.
go_test() {
    local name=$1 status=0
    shift
    "$@" >"$logs/$name.json" 2>"$logs/$name.err" </dev/null || status=$?
    "$logs/testsum" -allow "$allow" -totals "$totals" "$name" <"$logs/$name.json" || status=1
    if [ "$status" -ne 0 ] && [ -s "$logs/$name.err" ]; then
        sed 's/^/      /' "$logs/$name.err"
    fi
    if [ "$status" -ne 0 ] && [ ! -s "$logs/$name.json" ]; then count 0 1 0 0; fi
}

# existing prints the package patterns of those directories that are there.
existing() {
    local name
    for name in "$@"; do
        [ -z "$(find "$name" -name '*.go' 2>/dev/null | head -n 1)" ] || echo "./$name/..."
    done
}

gofmt_clean() {
    local found
    # shellcheck disable=SC2046
    found=$(gofmt -l $(existing cgo cmd lesext scripts tools | sed 's|/\.\.\.$||'))
    [ -z "$found" ] || { printf 'not formatted:\n%s\n' "$found"; return 1; }
}

# With LES off the patched tree has none of our files in it. The compiler cache
# holds most of it from the build before: paths relative to a directory beside
# that one are the same.
build_off() {
    LES_BUILD_DIR=$build-off LES_CMAKE_ARGS=-DLES=OFF scripts/build.sh llama
}

# The standard set of measurements on a model of a few megabytes: that it runs, not
# what it measures.
bench_small() {
    BENCH_MODEL=$logs/bench/tiny.gguf BENCH_PRESET=tiny-qwen3moe BENCH_OUT=$logs/bench BENCH_ROUNDS=2 BENCH_WARMUP=2 \
        BENCH_TOKENS=4 BENCH_SLOTS=0,2 BENCH_CACHE=2 BENCH_PREFILL=16 BENCH_MEMORY=512M scripts/bench.sh small
}

static_checks() {
    check gofmt gofmt_clean
    if command -v shellcheck >/dev/null; then
        check shellcheck shellcheck scripts/*.sh .ci/run
    else
        skip shellcheck "shellcheck is not installed"
    fi
    check llama-sh scripts/test-llama-sh.sh
    check mobile-sh scripts/test-mobile.sh
    check series-verify scripts/llama.sh verify
    check series-budget scripts/llama.sh stats
}

pure_go() {
    local packages tagged compiler
    packages=$(existing lesext scripts)
    tagged=$(existing lesext)
    # shellcheck disable=SC2086
    check vet go vet $packages
    check vet-systems scripts/vet-systems.sh
    while read -r compiler; do
        skip "$compiler" "not installed: some C files for other systems are not compiled"
    done < <(sed -n 's/^skipped: \([^ ]*\).*/\1/p' "$logs/vet-systems.log" | sort -u)
    # shellcheck disable=SC2086
    go_test race go test -json -race $packages
    [ -z "$tagged" ] && { echo "      lesext is not there yet"; return; }
    go_test invariants go test -json -tags invariants ./lesext/...
}

native() {
    local packages
    packages=$(existing cgo cmd)
    if [ -n "$packages" ]; then
        # shellcheck disable=SC2086
        check vet-cgo scripts/go.sh vet $packages
        # shellcheck disable=SC2086
        go_test cgo scripts/go.sh test -json $packages
    fi
    if [ -e "$build/bin/liblesext.so" ]; then
        check mobile-core scripts/test-mobile-core.sh
        while read -r compiler; do
            skip "$compiler" "not installed: a wrapper for phones is not run"
        done < <(sed -n 's/^skipped: \([^ ]*\).*/\1/p' "$logs/mobile-core.log")
    else skip mobile-core "the library for applications is not built"
    fi
    check llama-archs "$build/bin/test-llama-archs"
    check csrc-asan scripts/test-csrc.sh asan
    check csrc-tsan scripts/test-csrc.sh tsan
    check verify-matrix scripts/verify-matrix.sh
    check embed scripts/test-embed.sh
    if command -v dpkg-shlibdeps >/dev/null; then check deb scripts/deb.sh --check; fi
    check client scripts/test-client.sh --seconds 3 --tokens 8 --prompts 3
    check bench bench_small
    check archs scripts/archs.sh --out "$logs/ARCHS.md"
}

finish() {
    awk -v seconds=$((SECONDS - started)) '
        { passed += $1; failed += $2; skipped += $3; unexpected += $4 }
        END {
            printf "%d of the skips unexpected; took %d s\n", unexpected, seconds
            printf "total: %d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed + unexpected > 0
        }' "$totals"
}

rm -rf "$logs"
mkdir -p "$logs"
: >"$totals"
scripts/setup.sh --test || exit
go build -o "$logs/testsum" ./scripts/testsum || exit
scripts/llama.sh fetch && scripts/llama.sh apply || exit
static_checks
pure_go
if check build scripts/build.sh "${targets[@]}"; then native; fi
check build-off build_off
finish
