#!/usr/bin/env bash
# Checks what is written for other systems, without running it: `go vet` of the
# packages without cgo for each of them, and the C files for a system with that
# system's headers, where a compiler that has them is installed. Compilers that are
# not are named, and are no failure.
#
#   scripts/vet-systems.sh
#
# Environment: ZIG (zig), whose headers are those of macOS.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit
csrc=cgo/les/csrc
status=0

# vet SYSTEM ARCHITECTURE CGO. An iOS program is linked by clang, but vet links nothing.
vet() {
    echo "vet $1/$2"
    GOOS=$1 GOARCH=$2 CGO_ENABLED=$3 CC=false go vet ./lesext/... || status=1
}

# compiles COMPILER WORDS FILE...: the C files, warnings being errors.
compiles() {
    local compiler=$1 words=$2 file
    shift 2
    # shellcheck disable=SC2086 # the compiler may be two words
    if ! command -v ${compiler%% *} >/dev/null; then
        echo "skipped: $compiler is not installed: $*"
        return
    fi
    for file in "$@"; do
        echo "$compiler $words $file"
        # shellcheck disable=SC2086
        $compiler $words -std=gnu11 -Wall -Wextra -Wmissing-prototypes -Werror -c "$csrc/$file" -o /dev/null || status=1
    done
}

vet linux arm64 0
vet windows amd64 0
vet windows arm64 0
vet darwin arm64 0
vet darwin amd64 0
vet android arm64 0
vet ios arm64 1
compiles x86_64-w64-mingw32-gcc-posix "" les-os-windows.c
compiles aarch64-linux-gnu-gcc "" les-os-linux.c les-os-posix.c
# As upstream builds them, which asks for XOPEN; the C library of HarmonyOS is musl.
compiles "${ZIG:-zig} cc" "-target aarch64-linux-musl -D_XOPEN_SOURCE=600 -D_GNU_SOURCE" les-os-linux.c les-os-posix.c
compiles "${ZIG:-zig} cc" "-target aarch64-macos" les-os-darwin.c les-os-posix.c
compiles "${ZIG:-zig} cc" "-target x86_64-macos" les-os-darwin.c les-os-posix.c
exit "$status"
