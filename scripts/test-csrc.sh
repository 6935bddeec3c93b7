#!/bin/sh
# Builds and runs the tests of the C side of LES, once under ASan and UBSan and once under TSan.
# Exits non-zero on a failed check and on any report of a sanitizer.
#
#   scripts/test-csrc.sh [asan|tsan]...
#
# LES_LLAMA_DIR names the patched llama.cpp where it is not llama/llama.cpp; JOBS how many compilers run at once.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
llama=${LES_LLAMA_DIR:-$root/llama/llama.cpp}
jobs=${JOBS:-$(getconf _NPROCESSORS_ONLN)}

if [ ! -f "$llama/ggml/CMakeLists.txt" ]; then
    echo "test-csrc: no patched llama.cpp in $llama" >&2
    exit 1
fi

export ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1"

run() {
    build=$root/build-csrc-$1
    cmake -S "$root/cgo/les/csrc/test" -B "$build" -DLES_SANITIZE="$2" -DLES_LLAMA_DIR="$llama" > /dev/null
    cmake --build "$build" --parallel "$jobs" > "$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; exit 1; }
    (cd "$build" && ctest --output-on-failure)
}

[ $# -gt 0 ] || set -- asan tsan
for variant in "$@"; do
    case $variant in
        asan) run asan address,undefined ;;
        tsan) run tsan thread ;;
        *)    echo "test-csrc: no variant $variant" >&2; exit 1 ;;
    esac
done
