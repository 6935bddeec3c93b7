#!/usr/bin/env bash
# Builds LES for iOS: LesExt.xcframework with a slice for devices and one for the
# simulator, and a Swift package around it, with a sample.
#
#   scripts/build-ios.sh [--dry-run] [--out DIR]
#
# It needs macOS with Xcode (not only its command line tools), git, cmake, ninja
# and Go. With --dry-run it prints every command and runs none. A second run
# builds what has changed.
#
# Everything is linked into the app: iOS lets no app open a library that did not
# come with it, and the Go engine is a static archive there. The kernels of the
# device slice need dotprod: A13 and later, that is iPhone 11 and later.
#
# Environment: IOS_MIN (17.0), IOS_ARM_ARCH (armv8.4-a+dotprod), LES_JOBS (one per
# processor).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lib/mobile.sh
. "$root/scripts/lib/mobile.sh"
mobile_options build-ios "$@"
cd "$root"

min=${IOS_MIN:-17.0}
arch=${IOS_ARM_ARCH:-armv8.4-a+dotprod}
out=${out:-$root/build-ios}
jobs=${LES_JOBS:-$(getconf _NPROCESSORS_ONLN)}

# sdk NAME prints the folder of an SDK, or a stand-in for one that is missing.
sdk() {
    xcrun --sdk "$1" --show-sdk-path 2>/dev/null || echo "\$SDK_$1"
}

prerequisites() {
    local name_of_sdk
    want_tools
    want_cmake
    [ "$(uname -s)" = Darwin ] || lacks "macOS, this is $(uname -s)"
    want_command xcrun "Xcode from the App Store, then: sudo xcode-select -s /Applications/Xcode.app"
    want_command xcodebuild "Xcode from the App Store, then: sudo xcode-select -s /Applications/Xcode.app"
    want_command libtool "Xcode"
    if command -v xcodebuild >/dev/null 2>&1 && ! xcodebuild -version >/dev/null 2>&1; then
        lacks "Xcode itself, not only its command line tools: $(xcodebuild -version 2>&1 | head -n 1)"
    fi
    for name_of_sdk in iphoneos iphonesimulator; do
        if command -v xcrun >/dev/null 2>&1 && ! xcrun --sdk "$name_of_sdk" --show-sdk-path >/dev/null 2>&1; then
            lacks "the SDK $name_of_sdk: Xcode, Settings, Components"
        fi
    done
    case $min in
    *[!0-9.]* | '') lacks "a version number in IOS_MIN, not \"$min\"" ;;
    *) at_least 16.0 "$min" || lacks "IOS_MIN of at least 16.0, not $min" ;;
    esac
    end_of_prerequisites
}

# slice SDK sets what the compilers want for it.
slice() {
    sysroot=$(sdk "$1")
    case $1 in
    iphoneos) triple=arm64-apple-ios$min ;;
    iphonesimulator) triple=arm64-apple-ios$min-simulator ;;
    esac
    build=$out/cmake-$1
    flags="-isysroot $sysroot -target $triple"
}

# No Metal and no Accelerate: LES streams to the processor, and what it is compared
# with is llama.cpp's plain kernels. The engine is built by Go, which the variables
# are for.
build_libraries() {
    run cmake -S . -B "$build" -G Ninja \
        -DCMAKE_SYSTEM_NAME=iOS "-DCMAKE_OSX_SYSROOT=$1" -DCMAKE_OSX_ARCHITECTURES=arm64 \
        "-DCMAKE_OSX_DEPLOYMENT_TARGET=$min" \
        "${mobile_cmake[@]}" -DBUILD_SHARED_LIBS=OFF "-DGGML_CPU_ARM_ARCH=$arch" \
        -DGGML_METAL=OFF -DGGML_BLAS=OFF -DGGML_ACCELERATE=OFF \
        "-DCMAKE_ARCHIVE_OUTPUT_DIRECTORY=$build/bin"
    run env GOOS=ios GOARCH=arm64 "CC=$(clang_of "$1")" "CXX=$(clang_of "$1")++" \
        "CGO_CFLAGS=-O2 $flags" "CGO_CXXFLAGS=-O2 $flags" "CGO_LDFLAGS=$flags" \
        cmake --build "$build" --parallel "$jobs" --target llama ggml lesext-static
}

clang_of() {
    xcrun --sdk "$1" --find clang 2>/dev/null || echo clang
}

build_wrapper() {
    # shellcheck disable=SC2086
    run "$(clang_of "$1")" $flags -std=c11 -O2 -Wall -Wextra -c \
        -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include -Icmd/liblesext/csrc -Imobile/common \
        mobile/common/les-mobile.c -o "$build/bin/les-mobile.o"
    run libtool -static -o "$build/libLesExt.a" "$build/bin/libllama.a" "$build/bin/libggml.a" "$build/bin/libggml-cpu.a" \
        "$build/bin/libggml-base.a" "$build/bin/liblesext.a" "$build/bin/les-mobile.o"
}

# The folder has the module's name: Xcode copies the headers of all frameworks of an
# app into one place, where a module map must not meet another.
install_headers() {
    local to=$out/include/LesExtC
    run mkdir -p "$to"
    run cp llama/llama.cpp/include/llama.h llama/llama.cpp/ggml/include/ggml.h llama/llama.cpp/ggml/include/ggml-alloc.h \
        llama/llama.cpp/ggml/include/ggml-backend.h llama/llama.cpp/ggml/include/ggml-cpu.h \
        llama/llama.cpp/ggml/include/ggml-opt.h llama/llama.cpp/ggml/include/gguf.h \
        cmd/liblesext/csrc/lesext.h mobile/common/les-mobile.h mobile/ios/module.modulemap "$to"
}

prerequisites
run scripts/llama.sh fetch
run scripts/llama.sh apply
install_headers
frameworks=()
for name_of_slice in iphoneos iphonesimulator; do
    slice "$name_of_slice"
    build_libraries "$name_of_slice"
    build_wrapper "$name_of_slice"
    frameworks+=(-library "$build/libLesExt.a" -headers "$out/include")
done
copy_tree mobile/ios/LesExt "$out/LesExt"
run rm -rf "$out/LesExt/LesExt.xcframework"
run xcodebuild -create-xcframework "${frameworks[@]}" -output "$out/LesExt/LesExt.xcframework"
copy_tree mobile/ios/Sample "$out/Sample"
echo "build-ios: $out/LesExt is a Swift package; $out/Sample holds the sources of a sample app"
