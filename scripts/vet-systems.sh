#!/usr/bin/env bash
# Checks what is written for other systems, without running it: `go vet` of the
# packages without cgo for each of them, and all C files for a system with that
# system's headers, where a compiler that has them is installed. Compilers that are
# not are named, and are no failure; so is llama.cpp's source, without which only the
# files for one system are compiled.
#
#   scripts/vet-systems.sh
#
# Environment: ZIG (zig; 'python3 -m ziglang' is another), whose headers are those of
# musl, of Apple's systems and of Windows.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit
csrc=cgo/les/csrc
llama=llama/llama.cpp
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0

# vet SYSTEM ARCHITECTURE CGO. An iOS program is linked by clang, but vet links nothing.
vet() {
    echo "vet $1/$2"
    GOOS=$1 GOARCH=$2 CGO_ENABLED=$3 CC=false go vet ./lesext/... || status=1
}

# files KIND...: the C files of a system, which are named after it or after what it shares
# with others, and those of all systems where there are headers of llama.cpp for them.
files() {
    local file kind
    for file in "$csrc"/*.c; do
        kind=$(sed -n 's/^les-\(os\|library\)-\(.*\)\.c$/\2/p' <<<"${file##*/}")
        if [ -z "$kind" ]; then
            [ ! -d "$llama" ] || echo "$file"
        elif [[ " $* " == *" $kind "* ]]; then
            echo "$file"
        fi
    done
}

# compiles COMPILER WORDS KIND...: the C files, warnings being errors. Headers of ggml have functions that not every file uses.
compiles() {
    local compiler=$1 words=$2 file n=0
    shift 2
    # shellcheck disable=SC2086 # the compiler may be several words
    if ! command -v ${compiler%% *} >/dev/null; then
        echo "skipped: $compiler is not installed: $words $*"
        return
    fi
    for file in $(files "$@"); do
        # shellcheck disable=SC2086
        $compiler $words -std=gnu11 -Wall -Wextra -Wmissing-prototypes -Wno-unused-function -Werror -DGGML_USE_LES \
            "-I$csrc" "-I$llama/include" "-I$llama/ggml/include" "-I$llama/ggml/src" "-I$llama/ggml/src/ggml-cpu" \
            -c "$file" -o "$work/object" || { echo "$compiler $words: $file does not compile"; status=1; }
        n=$((n + 1))
    done
    echo "$compiler $words: $n files"
}

vet linux arm64 0
vet windows amd64 0
vet windows arm64 0
vet darwin arm64 0
vet darwin amd64 0
vet android arm64 0
vet ios arm64 1

zig="${ZIG:-zig} cc"
gnu="-D_XOPEN_SOURCE=600 -D_GNU_SOURCE" # as upstream builds them, which asks for XOPEN
darwin="-D_XOPEN_SOURCE=600 -D_DARWIN_C_SOURCE"
# zig takes its headers of Apple's systems for macOS alone, and has no os/proc.h.
apple=$(${ZIG:-zig} env 2>/dev/null | sed -n 's/.*lib_dir.*"\(.*\)".*/\1/p')/libc/include/any-darwin-any
mkdir "$work/os"
printf '#include <stddef.h>\nsize_t os_proc_available_memory(void);\n' >"$work/os/proc.h"
compiles aarch64-linux-gnu-gcc "$gnu" linux posix
compiles x86_64-w64-mingw32-gcc-posix -D_WIN32_WINNT=0x0601 windows
compiles "$zig" "-target aarch64-windows-gnu" windows
compiles "$zig" "-target aarch64-linux-musl $gnu" linux posix # the C library of HarmonyOS
compiles "$zig" "-target x86_64-linux-musl $gnu" linux posix
compiles "$zig" "-target aarch64-macos $darwin" darwin posix
compiles "$zig" "-target x86_64-macos $darwin" darwin posix
compiles "$zig" "-target aarch64-ios $darwin -isystem $apple -I$work" darwin posix
exit "$status"
