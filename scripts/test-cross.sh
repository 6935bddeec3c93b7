#!/usr/bin/env bash
# Builds for other systems with cross compilers and runs what is built under
# emulators: `lescli verify` with few, two and all slots, and the unit tests of Go.
# Long (most of an hour from cold on two processors), so not a part of
# scripts/test.sh.
#
#   scripts/test-cross.sh arm64      linux/arm64: gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu, qemu-user
#   scripts/test-cross.sh windows    windows/amd64: g++-mingw-w64-x86-64-posix, wine
#   scripts/test-cross.sh macos      the C side and pure Go for macOS, compiled only: zig (PyPI: ziglang), as $ZIG
#
# Environment: LES_JOBS (1), LES_ARM_ARCH (armv8.2-a+dotprod; armv8-a and
# armv8.6-a+dotprod+i8mm are the others that matter), LES_CROSS_MODEL
# (models/les-ref.gguf), LES_CROSS_STEP (all; build, verify or test alone).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export LES_JOBS=${LES_JOBS:-1}
arm_arch=${LES_ARM_ARCH:-armv8.2-a+dotprod}
model=${LES_CROSS_MODEL:-models/les-ref.gguf}
step=${LES_CROSS_STEP:-all}
arguments="-DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF"

want() {
    local tool status=0
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "test-cross: missing: $tool" >&2; status=1; }
    done
    [ "$status" -eq 0 ] || exit 1
}

# does STEP: whether it was asked for.
does() { [ "$step" = all ] || [ "$step" = "$1" ]; }

# Few threads and short prompts: an emulator is 10 to 50 times slower.
verify() {
    "$@" verify -m "$model" --les-slots floor,2,all -t 2 --prompt-tokens 1,7 --gen 4
}

# Packages that have tests; but the simulations of dspark, which are arithmetic and
# take minutes without an emulator in between.
packages() {
    go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./lesext/... ./cgo/... ./cmd/lescli/... | grep -v dspark
}

# The tests of the C side, which ctest runs under the emulator of the toolchain file.
c_tests() {
    mkdir -p build-csrc-arm64
    cmake -S cgo/les/csrc/test -B build-csrc-arm64 "-DCMAKE_TOOLCHAIN_FILE=$root/cmake/aarch64-linux-gnu.cmake" \
        -DGGML_NATIVE=OFF "-DGGML_CPU_ARM_ARCH=$arm_arch" "-DLES_LLAMA_DIR=$root/llama/llama.cpp" >build-csrc-arm64/build.log
    cmake --build build-csrc-arm64 --parallel "$LES_JOBS" >>build-csrc-arm64/build.log
    (cd build-csrc-arm64 && ctest --output-on-failure)
}

arm64() {
    want aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64 cmake go
    export LES_BUILD_DIR=$root/build-arm64 GOOS=linux GOARCH=arm64 CGO_ENABLED=1
    export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++
    export LES_CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/aarch64-linux-gnu.cmake -DGGML_CPU_ARM_ARCH=$arm_arch $arguments"
    local emulator=(qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu)
    ! does build || scripts/build.sh lescli
    ! does verify || verify "${emulator[@]}" "$LES_BUILD_DIR/bin/lescli"
    ! does test || c_tests
    # shellcheck disable=SC2046
    ! does test || scripts/go.sh test -p 1 -vet=off -timeout 60m -exec "${emulator[*]} -E LD_LIBRARY_PATH=$LES_BUILD_DIR/bin" $(packages)
}

windows() {
    want x86_64-w64-mingw32-gcc-posix x86_64-w64-mingw32-g++-posix wine cmake go
    export LES_BUILD_DIR=$root/build-windows GOOS=windows GOARCH=amd64 CGO_ENABLED=1
    export CC=x86_64-w64-mingw32-gcc-posix CXX=x86_64-w64-mingw32-g++-posix WINEDEBUG=-all
    export LES_CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/x86_64-w64-mingw32.cmake
        -DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON $arguments"
    if does build; then
        scripts/build.sh llama les-draft
        runtime_libraries "$LES_BUILD_DIR/bin"
        scripts/go.sh build -o "$LES_BUILD_DIR/bin/lescli.exe" ./cmd/lescli
    fi
    wine_prefix
    ! does verify || verify wine "$LES_BUILD_DIR/bin/lescli.exe"
    # wine shows symbolic links as files, and puts no memory behind pages that are only
    # loaded from: docs/PLATFORMS.md.
    # shellcheck disable=SC2046
    ! does test || scripts/go.sh test -p 1 -vet=off -timeout 60m -overlay "$WINEPREFIX/overlay.json" -exec wine \
        -skip 'InputsAreNeverReplaced|ReportsCannotShareAFile|MemoryOfSlotsComesAndGoes' $(packages)
}

# A wine of its own, with what Go programs want and wine 8 lacks: a library for
# random bytes, and deleting by a call that wine answers with an error which Go
# does not take for "not supported"; Go's own fallback is turned on instead.
wine_prefix() {
    local at
    export WINEPREFIX=$LES_BUILD_DIR/wine
    mkdir -p "$WINEPREFIX"
    [ -d "$WINEPREFIX/drive_c" ] || wine wineboot --init >/dev/null 2>&1 || true
    "$CC" -O1 -shared -o "$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll" tools/wine/bcryptprimitives.c -ladvapi32
    at=$(go env GOROOT)/src/internal/syscall/windows/at_windows.go
    sed 's/^var TestDeleteatFallback bool$/var TestDeleteatFallback = true/' "$at" >"$WINEPREFIX/at_windows.go"
    printf '{"Replace":{"%s":"%s"}}\n' "$at" "$WINEPREFIX/at_windows.go" >"$WINEPREFIX/overlay.json"
}

# The compiler's own libraries, which Windows looks for beside a program.
runtime_libraries() {
    local name
    for name in libgcc_s_seh-1.dll libstdc++-6.dll libgomp-1.dll libwinpthread-1.dll; do
        cp "$("$CXX" -print-file-name="$name")" "$1"
    done
}

macos() {
    local zig=${ZIG:-zig} file target
    # shellcheck disable=SC2086
    $zig version >/dev/null || { echo "test-cross: missing: zig; \$ZIG may be 'python3 -m ziglang'" >&2; exit 1; }
    scripts/llama.sh fetch
    scripts/llama.sh apply
    mkdir -p build-macos
    for target in aarch64-macos x86_64-macos; do
        for file in cgo/les/csrc/*.c; do
            case $file in *-linux.c | *-windows.c) continue ;; esac
            # shellcheck disable=SC2086
            $zig cc -target "$target" -std=gnu11 -O1 -Wall -Wextra -Wno-unused-function -DGGML_USE_LES -Icgo/les/csrc \
                -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include -Illama/llama.cpp/ggml/src -Illama/llama.cpp/ggml/src/ggml-cpu \
                -c "$file" -o "build-macos/$target-$(basename "$file").o"
        done
        echo "test-cross: $target: the C side compiles"
    done
}

case ${1:-} in
arm64 | windows | macos) "$1" ;;
*)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
    ;;
esac
