#!/usr/bin/env bash
# Builds for other systems with cross compilers and runs what is built under
# emulators: `lescli verify` with few, two and all slots, and the unit tests of Go.
# Long (most of an hour from cold on two processors), so not a part of
# scripts/test.sh.
#
#   scripts/test-cross.sh arm64      linux/arm64: gcc-aarch64-linux-gnu, g++-aarch64-linux-gnu, qemu-user
#   scripts/test-cross.sh windows    windows/amd64: g++-mingw-w64-x86-64-posix, wine
#   scripts/test-cross.sh musl       linux/amd64 with musl: zig (PyPI: ziglang) as $ZIG, musl; then linux/arm64 with it, as
#                                    HarmonyOS has it: qemu-user, $LES_MUSL_ROOT/lib/ld-musl-aarch64.so.1 (Debian's musl for arm64)
#   scripts/test-cross.sh macos      macOS, linked and not run: zig as $ZIG
#
# Environment: LES_JOBS (1), LES_ARM_ARCH (armv8.2-a+dotprod; armv8-a and
# armv8.6-a+dotprod+i8mm are the others that matter), LES_CROSS_CPU (max; a processor
# that qemu knows), LES_CROSS_MODEL (models/les-ref.gguf), LES_CROSS_STEP (all; build,
# verify, embed, upstream, csrc or test alone), LES_CROSS_PACKAGES (of the tests of Go;
# all that have some), LES_STOCK_LIBS (the libraries of an unpatched build for the same
# target, which upstream compares with and is left out without).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
export LES_JOBS=${LES_JOBS:-1}
arm_arch=${LES_ARM_ARCH:-armv8.2-a+dotprod}
model=${LES_CROSS_MODEL:-models/les-ref.gguf}
step=${LES_CROSS_STEP:-all}
arguments="-DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF"
tools=(llama-gguf-split llama-quantize llama-imatrix) # which tests start

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
    "$@" verify -m "$model" --les-slots floor,2,all -t "${threads:-2}" --prompt-tokens 1,7 --gen 4
}

# Packages that have tests.
packages() {
    # shellcheck disable=SC2086
    go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ${LES_CROSS_PACKAGES:-./lesext/... ./cgo/... ./cmd/lescli/...}
}

# c_tests NAME ARGUMENT...: the tests of the C side, which ctest runs under the emulator of the toolchain file.
c_tests() {
    local build=build-csrc-$1
    shift
    mkdir -p "$build"
    cmake -S cgo/les/csrc/test -B "$build" -DGGML_NATIVE=OFF "-DLES_LLAMA_DIR=$root/llama/llama.cpp" "$@" >"$build/build.log"
    cmake --build "$build" --parallel "$LES_JOBS" >>"$build/build.log"
    (cd "$build" && ctest --output-on-failure)
}

# embed EMULATOR...: the example, which opens the engine as a library, writes the text that everything resident does.
embed() {
    local bin=$LES_BUILD_DIR/bin lescli=$LES_BUILD_DIR/bin/lescli prompt='func main() {'
    [ ! -e "$lescli.exe" ] || lescli=$lescli.exe
    "$CC" -std=c99 -O1 examples/embed/main.c -Icmd/liblesext/csrc -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include \
        "-L$bin" -llesext -lllama -lggml -lggml-base "-Wl,-rpath,\$ORIGIN" "-Wl,-rpath-link,$bin" -o "$bin/embed.exe"
    if [ -e "$lescli" ]; then
        "$@" "$lescli" run -m "$model" --les off -p "$prompt" -n 24 --temp 0 2>/dev/null | tr -d '\r' >"$bin/embed.want"
    else # every expert has a slot
        "$@" "$bin/embed.exe" "$model" 4294967296 "$prompt" 2>/dev/null >"$bin/embed.want"
    fi
    "$@" "$bin/embed.exe" "$model" 104857600 "$prompt" 2>"$bin/embed.report" | tr -d '\r' >"$bin/embed.got"
    cat "$bin/embed.report"
    cmp "$bin/embed.want" "$bin/embed.got"
    grep 'bytes read' "$bin/embed.report" | grep -qv ' 0 bytes read' # something was streamed
    echo "test-cross: the engine as a library writes the same text"
    engines "$@"
}

# engines EMULATOR...: the engine is found beside libllama in a folder of any name, and what is in its place is refused
# by name, in a process that goes on to say so.
engines() {
    local bin=$LES_BUILD_DIR/bin folder engine content status
    folder=$LES_BUILD_DIR/"engine ä 😀"
    rm -rf "$folder"
    mkdir "$folder"
    find "$bin" -maxdepth 1 \( -name '*.dll' -o -name '*.so' -o -name '*.so.*' -o -name embed.exe \) -exec cp -P {} "$folder" \;
    engine=$(find "$folder" -name 'liblesext-engine.*')
    "$@" "$folder/embed.exe" "$model" 104857600 'func main() {' 2>/dev/null | tr -d '\r' | cmp - "$bin/embed.want"
    for content in none text "$(find "$bin" -name 'libgcc_s_seh-1.dll' -o -name 'libggml-base.so')"; do
        rm "$engine"
        case $content in
        none) ;;
        text) echo "no library" >"$engine" ;;
        *) cp "$content" "$engine" ;;
        esac
        status=0
        "$@" "$folder/embed.exe" "$model" 104857600 'func main() {' >/dev/null 2>"$bin/embed.report" || status=$?
        [ "$status" -eq 1 ] || { echo "test-cross: exit code $status with $content as the engine" >&2; return 1; }
        grep "^embed: $model: cannot stream: .*${engine##*/}" "$bin/embed.report"
        touch "$engine"
    done
}

# upstream EMULATOR...: with LES off, the logits are those of an unpatched build.
upstream() {
    if [ -z "${LES_STOCK_LIBS:-}" ]; then
        echo "test-cross: LES_STOCK_LIBS is not set, so nothing is compared with an unpatched build"
        return
    fi
    LES_EMULATOR="$*" scripts/check-upstream.sh "$LES_STOCK_LIBS" "$model"
}

arm64() {
    want aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64 cmake go
    export LES_BUILD_DIR=$root/build-arm64 GOOS=linux GOARCH=arm64 CGO_ENABLED=1
    export CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++
    export LES_CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/aarch64-linux-gnu.cmake -DGGML_CPU_ARM_ARCH=$arm_arch ${arguments/TOOLS=OFF/TOOLS=ON}"
    local cpu=${LES_CROSS_CPU:-max}
    local emulator=(qemu-aarch64 -cpu "$cpu" -L /usr/aarch64-linux-gnu)
    ! does build || scripts/build.sh lescli lesext "${tools[@]}"
    ! does verify || verify "${emulator[@]}" "$LES_BUILD_DIR/bin/lescli"
    ! does embed || embed "${emulator[@]}"
    ! does upstream || upstream "${emulator[@]}"
    ! does csrc || c_tests_arm64
    does test || return 0
    # Threads that spin for each other take the emulator four times as long.
    export QEMU_CPU=$cpu QEMU_LD_PREFIX=/usr/aarch64-linux-gnu OMP_WAIT_POLICY=passive
    local execute=()
    if ! kernel_runs_arm64; then
        echo "test-cross: tests that start programs will fail: the kernel starts none of arm64"
        execute=(-exec "${emulator[*]} -E LD_LIBRARY_PATH=$LES_BUILD_DIR/bin")
    fi
    # shellcheck disable=SC2046
    scripts/go.sh test -p 1 -vet=off -timeout 120m ${execute[@]+"${execute[@]}"} $(packages)
}

# The tests of the C side for each set of kernels that computes a product otherwise.
c_tests_arm64() {
    local kernels
    for kernels in armv8-a armv8.2-a+dotprod armv8.6-a+dotprod+i8mm armv8.6-a+dotprod+i8mm+sve; do
        echo "test-cross: tests of the C side, $kernels"
        c_tests "arm64-$kernels" "-DCMAKE_TOOLCHAIN_FILE=$root/cmake/aarch64-linux-gnu.cmake" "-DGGML_CPU_ARM_ARCH=$kernels"
    done
}

# kernel_runs_arm64 tells the kernel, as root, to start arm64 programs with qemu, so that programs
# under test can start others. It stays told until it is restarted.
kernel_runs_arm64() {
    local misc=/proc/sys/fs/binfmt_misc head='\x7fELF\x02\x01\x01' zeros='\x00\x00\x00\x00\x00\x00\x00\x00' ones='\xff\xff\xff\xff\xff\xff\xff\xff'
    [ ! -e "$misc/qemu-aarch64" ] || return 0
    [ -e "$misc/register" ] || mount -t binfmt_misc none "$misc" 2>/dev/null || return 1
    [ -w "$misc/register" ] || return 1
    # Class, byte order, version and machine count; a program may be of either kind, 2 or 3. P keeps its first argument.
    printf '%s' ":qemu-aarch64:M::$head\x00$zeros\x02\x00\xb7\x00:${ones:0:28}\x00$ones\xfe\xff\xff\xff:$(command -v qemu-aarch64):P" >"$misc/register"
}

windows() {
    want x86_64-w64-mingw32-gcc-posix x86_64-w64-mingw32-g++-posix wine cmake go
    export LES_BUILD_DIR=$root/build-windows GOOS=windows GOARCH=amd64 CGO_ENABLED=1
    export CC=x86_64-w64-mingw32-gcc-posix CXX=x86_64-w64-mingw32-g++-posix WINEDEBUG=-all
    local kernels="-DGGML_SSE42=ON -DGGML_AVX=ON -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON"
    export LES_CMAKE_ARGS="-DCMAKE_TOOLCHAIN_FILE=$root/cmake/x86_64-w64-mingw32.cmake $kernels ${arguments/TOOLS=OFF/TOOLS=ON}"
    if does build; then
        scripts/build.sh llama les-draft lesext "${tools[@]}"
        runtime_libraries "$LES_BUILD_DIR/bin"
        scripts/go.sh build -o "$LES_BUILD_DIR/bin/lescli.exe" ./cmd/lescli
    fi
    wine_prefix
    ! does verify || verify wine "$LES_BUILD_DIR/bin/lescli.exe"
    ! does embed || embed wine
    ! does upstream || upstream wine
    # shellcheck disable=SC2086
    ! does csrc || c_tests windows "-DCMAKE_TOOLCHAIN_FILE=$root/cmake/x86_64-w64-mingw32.cmake" -DCMAKE_EXE_LINKER_FLAGS=-static $kernels
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

# zig_tools TARGET ARGUMENT...: compilers by the names that CMake and Go take. CMake's own lists of flags for a
# system name some that zig's linker does not know.
zig_tools() {
    local zig=${ZIG:-zig} tool folder=$LES_BUILD_DIR/zig
    # shellcheck disable=SC2086
    $zig version >/dev/null || { echo "test-cross: missing: zig; \$ZIG may be 'python3 -m ziglang'" >&2; exit 1; }
    mkdir -p "$folder"
    for tool in cc c++; do
        printf '#!/bin/sh\nexec %s %s -target %s "$@"\n' "$zig" "$tool" "$*" >"$folder/$tool"
        chmod +x "$folder/$tool"
    done
    export CC=$folder/cc CXX=$folder/c++
}

musl() {
    want cmake go
    case $(uname -m) in x86_64) musl_amd64 ;; *) echo "test-cross: not linux/amd64, so nothing runs against musl without an emulator" ;; esac
    musl_arm64
}

# musl_build GOARCH PROCESSOR KERNELS TARGET...: what is there after it is linked against musl.
musl_build() {
    export LES_BUILD_DIR=$root/build-musl-$1 GOOS=linux GOARCH=$1 CGO_ENABLED=1
    zig_tools "$2-linux-musl" -dynamic "-mcpu=$3" # which -march is not to zig
    export LES_CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$2 -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF $arguments"
    LES_CMAKE_ARGS+=" -DCMAKE_C_FLAGS=-D_GNU_SOURCE -DCMAKE_CXX_FLAGS=-D_GNU_SOURCE"
    shift 3
    ! does build || scripts/build.sh "$@"
}

# Go cannot make a library for musl on amd64, so lescli alone.
musl_amd64() {
    [ -e /lib/ld-musl-x86_64.so.1 ] || { echo "test-cross: missing: /lib/ld-musl-x86_64.so.1" >&2; exit 1; }
    musl_build amd64 x86_64 x86_64_v3 lescli
    ! does verify || verify "$LES_BUILD_DIR/bin/lescli"
}

# The engine is opened by dlopen: what scripts/lib/go-musl-overlay.sh changes of Go's runtime makes that work.
musl_arm64() {
    local emulator=(qemu-aarch64 -cpu "${LES_CROSS_CPU:-max}" -L "${LES_MUSL_ROOT:-}")
    want qemu-aarch64
    [ -e "${LES_MUSL_ROOT:-}/lib/ld-musl-aarch64.so.1" ] || { echo "test-cross: missing: \$LES_MUSL_ROOT/lib/ld-musl-aarch64.so.1" >&2; exit 1; }
    GOARCH=arm64 scripts/lib/go-musl-overlay.sh "$root/build-musl-arm64/go"
    GOFLAGS="-overlay=$root/build-musl-arm64/go/overlay.json" musl_build arm64 aarch64 generic+v8_2a+dotprod lescli lesext
    threads=1 # without OpenMP threads spin for each other
    ! does verify || verify "${emulator[@]}" "$LES_BUILD_DIR/bin/lescli"
    ! does embed || embed "${emulator[@]}"
}

macos() {
    local target
    want cmake go
    for target in aarch64-macos:arm64:arm64 x86_64-macos:amd64:x86_64; do
        macos_link "${target%%:*}" "$(cut -d : -f 2 <<<"$target")" "${target##*:}"
        echo "test-cross: ${target%%:*}: lescli and the engine are linked"
    done
}

# apple_stub FILE INSTALLED: a library without symbols, for what Go names when it links and needs nothing of.
apple_stub() {
    mkdir -p "$(dirname "$1")"
    printf -- '--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64-macos, x86_64-macos ]\ninstall-name: %s\nexports: []\n...\n' "$2" >"$1"
}

# macos_link TARGET GOARCH PROCESSOR: without Apple's frameworks, of which zig has nothing to link with, and without
# optimization, as nothing is run.
macos_link() {
    export LES_BUILD_DIR=$root/build-$1 GOOS=darwin GOARCH=$2 CGO_ENABLED=1
    local stubs=$LES_BUILD_DIR/zig/stubs name
    apple_stub "$stubs/libresolv.tbd" /usr/lib/libresolv.9.dylib
    for name in CoreFoundation Security; do
        apple_stub "$stubs/$name.framework/$name.tbd" "/System/Library/Frameworks/$name.framework/Versions/A/$name"
    done
    zig_tools "$1" -fno-sanitize=undefined "-L$stubs" "-F$stubs"
    for name in strip dsymutil; do # which Go starts, and Linux's knows no file of Apple's
        ln -sf /bin/true "$LES_BUILD_DIR/zig/$name"
    done
    export PATH=$LES_BUILD_DIR/zig:$PATH
    export LES_CMAKE_ARGS="-DCMAKE_SYSTEM_NAME=Darwin -DCMAKE_SYSTEM_PROCESSOR=$3 -DCMAKE_INSTALL_NAME_TOOL=/bin/true -DCMAKE_OSX_SYSROOT=/ \
        -DCMAKE_C_FLAGS_RELEASE=-O0 -DCMAKE_CXX_FLAGS_RELEASE=-O0 \
        -DGGML_METAL=OFF -DGGML_ACCELERATE=OFF -DGGML_BLAS=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF $arguments"
    scripts/build.sh lescli lesext
    file "$LES_BUILD_DIR/bin/lescli" "$LES_BUILD_DIR/bin/liblesext-engine.dylib"
}

case ${1:-} in
arm64 | windows | musl | macos) "$1" ;;
*)
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0" >&2
    exit 2
    ;;
esac
