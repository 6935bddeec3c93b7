#!/usr/bin/env bash
# Builds LES for HarmonyOS: libllama and the engine for arm64-v8a, in the layout that
# a module of DevEco Studio takes.
#
#   scripts/build-harmonyos.sh [--dry-run] [--out DIR]
#
# It needs the native part of the OpenHarmony SDK, API 12 or newer, where OHOS_SDK_HOME
# says (the folder that holds native/), and git and Go. With --dry-run it prints
# every command and runs none. A second run builds what has changed.
#
# CMake and ninja are those of the SDK: CMake's own does not know the system OHOS,
# which the SDK's toolchain file names.
#
# Go has no port to this system. The engine is built as for Linux, against the C
# library of the SDK, which is musl, with two files of Go's runtime changed so that
# musl opens it (lib/go-musl-overlay.sh): seen with musl's own release on arm64, not on
# a phone (docs/PLATFORMS.md).
#
# Environment: OHOS_SDK_HOME, LES_JOBS (one per processor).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lib/mobile.sh
. "$root/scripts/lib/mobile.sh"
mobile_options build-harmonyos "$@"
cd "$root"

sdk=${OHOS_SDK_HOME:-}
out=${out:-$root/build-harmonyos}
jobs=${LES_JOBS:-$(getconf _NPROCESSORS_ONLN)}
api_min=12
build=$out/cmake-arm64-v8a
libs=$out/lesext/libs/arm64-v8a

prerequisites() {
    local version
    want_tools
    if [ -z "$sdk" ]; then
        lacks "OHOS_SDK_HOME (the folder of the OpenHarmony SDK that holds native/: DevEco Studio, SDK Manager)"
        sdk="\$OHOS_SDK_HOME"
    elif [ ! -d "$sdk/native" ]; then
        lacks "$sdk/native: OHOS_SDK_HOME does not name an OpenHarmony SDK with its native part"
    elif [ ! -f "$sdk/native/oh-uni-package.json" ]; then
        lacks "$sdk/native/oh-uni-package.json"
    else
        version=$(sed -n 's/.*"apiVersion" *: *"\([0-9]*\)".*/\1/p' "$sdk/native/oh-uni-package.json")
        [ "${version:-0}" -ge "$api_min" ] || lacks "API $api_min or newer, $sdk/native is ${version:-of no version}"
        [ -f "$sdk/native/build/cmake/ohos.toolchain.cmake" ] || lacks "$sdk/native/build/cmake/ohos.toolchain.cmake"
        want_programs
        [ -d "$sdk/native/sysroot" ] || lacks "$sdk/native/sysroot"
    fi
    end_of_prerequisites
}

want_programs() {
    local program
    for program in build-tools/cmake/bin/cmake build-tools/cmake/bin/ninja llvm/bin/clang llvm/bin/clang++; do
        [ -x "$sdk/native/$program" ] || lacks "$sdk/native/$program"
    done
}

# Upstream asks for GNU's extensions on systems of the name Linux or Android only, and
# without them the C library hides what threads and memory are placed with.
build_libraries() {
    local programs=$sdk/native/build-tools/cmake/bin flags="--target=aarch64-linux-ohos --sysroot=$sdk/native/sysroot -D__MUSL__"
    run "$programs/cmake" -S . -B "$build" -G Ninja "-DCMAKE_MAKE_PROGRAM=$programs/ninja" \
        "-DCMAKE_TOOLCHAIN_FILE=$sdk/native/build/cmake/ohos.toolchain.cmake" \
        -DOHOS_ARCH=arm64-v8a -DOHOS_PLATFORM=OHOS -DOHOS_STL=c++_shared \
        -DCMAKE_C_FLAGS=-D_GNU_SOURCE -DCMAKE_CXX_FLAGS=-D_GNU_SOURCE \
        "${mobile_cmake[@]}" -DGGML_CPU_ARM_ARCH=armv8.2-a+dotprod
    run scripts/lib/go-musl-overlay.sh "$out/go"
    run env GOOS=linux GOARCH=arm64 "GOFLAGS='-overlay=$out/go/overlay.json'" "CC=$sdk/native/llvm/bin/clang" "CXX=$sdk/native/llvm/bin/clang++" \
        "CGO_CFLAGS=-O2 $flags" "CGO_CXXFLAGS=-O2 $flags" "CGO_LDFLAGS=$flags" \
        "$programs/cmake" --build "$build" --parallel "$jobs" --target llama ggml lesext
}

install_module() {
    run mkdir -p "$libs" "$out/lesext/include"
    run find "$build/bin" -maxdepth 1 -name '*.so*' -exec cp '{}' "$libs" ';'
    run cp "$sdk/native/llvm/lib/aarch64-linux-ohos/libc++_shared.so" "$libs"
    run cp llama/llama.cpp/include/llama.h llama/llama.cpp/ggml/include/ggml.h llama/llama.cpp/ggml/include/ggml-alloc.h \
        llama/llama.cpp/ggml/include/ggml-backend.h llama/llama.cpp/ggml/include/ggml-cpu.h \
        llama/llama.cpp/ggml/include/ggml-opt.h llama/llama.cpp/ggml/include/gguf.h \
        cmd/liblesext/csrc/lesext.h mobile/common/les-mobile.h mobile/common/les-mobile.c "$out/lesext/include"
}

prerequisites
run scripts/llama.sh fetch
run scripts/llama.sh apply
build_libraries
install_module
echo "build-harmonyos: $out/lesext has libs/arm64-v8a and include for a native module of DevEco Studio"
