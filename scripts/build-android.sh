#!/usr/bin/env bash
# Builds LES for Android: libllama and the engine for arm64-v8a and x86_64, and a
# Gradle project around them: the library module lesext, which Gradle makes an AAR
# of, and a sample.
#
#   scripts/build-android.sh [--dry-run] [--out DIR]
#
# It needs the Android NDK, 27 or newer, where ANDROID_NDK_HOME says, and git,
# cmake, ninja and Go. With --dry-run it prints every command and runs none. A
# second run builds what has changed.
#
# The processor kernels are libraries of their own, one for each of upstream's
# variants (armv8.0; dotprod; fp16; i8mm; SVE2; SME): the best one that the phone
# can run is opened when the first model is loaded.
#
# Environment: ANDROID_NDK_HOME, ANDROID_API (28), ANDROID_ABIS ("arm64-v8a
# x86_64"), LES_JOBS (one per processor).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=lib/mobile.sh
. "$root/scripts/lib/mobile.sh"
mobile_options build-android "$@"
cd "$root"

ndk=${ANDROID_NDK_HOME:-}
api=${ANDROID_API:-28}
abis=${ANDROID_ABIS:-arm64-v8a x86_64}
out=${out:-$root/build-android}
jobs=${LES_JOBS:-$(getconf _NPROCESSORS_ONLN)}
ndk_min=27
api_min=28

# The name of the NDK's folder of programs for this machine; Apple's processors run those for x86_64.
case $(uname -s) in
Darwin) host=darwin-x86_64 ;;
*) host=linux-x86_64 ;;
esac

prerequisites() {
    local abi
    want_tools
    want_cmake
    want_ndk
    want_api
    for abi in $abis; do
        target "$abi" || lacks "support for the ABI $abi: arm64-v8a and x86_64 are built"
        want_compiler "$abi"
    done
    end_of_prerequisites
}

want_ndk() {
    local revision
    has_ndk=no
    if [ -z "$ndk" ]; then
        lacks "ANDROID_NDK_HOME (the folder of the Android NDK: developer.android.com/ndk/downloads)"
        ndk="\$ANDROID_NDK_HOME"
    elif [ ! -d "$ndk" ]; then
        lacks "the folder that ANDROID_NDK_HOME names: $ndk"
    elif [ ! -f "$ndk/source.properties" ]; then
        lacks "$ndk/source.properties: ANDROID_NDK_HOME does not name an NDK"
    else
        has_ndk=yes
        revision=$(sed -n 's/^Pkg\.Revision *= *//p' "$ndk/source.properties")
        at_least "$ndk_min" "${revision%%-*}" || lacks "NDK $ndk_min or newer, $ndk is ${revision:-of no version}"
        [ -f "$ndk/build/cmake/android.toolchain.cmake" ] || lacks "$ndk/build/cmake/android.toolchain.cmake"
    fi
    tools=$ndk/toolchains/llvm/prebuilt/$host/bin
}

want_api() {
    has_api=no
    case $api in
    '' | *[!0-9]*)
        lacks "a number in ANDROID_API, not \"$api\""
        return
        ;;
    esac
    if [ "$api" -ge "$api_min" ]; then has_api=yes; else lacks "ANDROID_API of at least $api_min, not $api"; fi
}

want_compiler() {
    [ "$has_ndk" = yes ] && [ "$has_api" = yes ] && target "$1" || return 0
    [ -x "$tools/$triple$api-clang" ] || lacks "$tools/$triple$api-clang"
}

# target ABI sets what Go and clang call it.
target() {
    case $1 in
    arm64-v8a) goarch=arm64 triple=aarch64-linux-android ;;
    x86_64) goarch=amd64 triple=x86_64-linux-android ;;
    *) return 1 ;;
    esac
}

# Libraries of 16 KiB pages load on phones with pages of either size. The toolchain
# file asks for them, but not of the engine, which Go builds: the variables are for
# it, and NDK 27 links for pages of 4 KiB by itself.
pages=-Wl,-z,max-page-size=16384
build_libraries() {
    run cmake -S . -B "$build" -G Ninja \
        "-DCMAKE_TOOLCHAIN_FILE=$ndk/build/cmake/android.toolchain.cmake" \
        "-DANDROID_ABI=$abi" "-DANDROID_PLATFORM=android-$api" \
        -DANDROID_STL=c++_shared -DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON \
        "${mobile_cmake[@]}" -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON
    run env GOOS=android "GOARCH=$goarch" "CC=$tools/$triple$api-clang" "CXX=$tools/$triple$api-clang++" "CGO_LDFLAGS=$pages" \
        cmake --build "$build" --parallel "$jobs" --target llama ggml lesext
}

build_wrapper() {
    run "$tools/$triple$api-clang" -std=c11 -O2 -fPIC -shared -Wall -Wextra \
        -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include -Icmd/liblesext/csrc -Imobile/common \
        mobile/common/les-mobile.c mobile/android/lesext/src/main/c/les-jni.c \
        -o "$build/bin/libles-jni.so" "-L$build/bin" -llesext -lllama -lggml -lggml-base "$pages"
}

# Gradle packs what is in jniLibs, and nothing whose name does not end in .so.
install_libraries() {
    local libs=$out/lesext/src/main/jniLibs/$abi
    run mkdir -p "$libs"
    run find "$build/bin" -maxdepth 1 -name '*.so' -exec cp '{}' "$libs" ';'
    run cp "$ndk/toolchains/llvm/prebuilt/$host/sysroot/usr/lib/$triple/libc++_shared.so" "$libs"
    run scripts/lib/page-size.sh "$tools/llvm-readelf" 16384 "$libs"
}

install_headers() {
    local to=$out/lesext/src/main/include
    run mkdir -p "$to"
    run cp llama/llama.cpp/include/llama.h llama/llama.cpp/ggml/include/ggml.h llama/llama.cpp/ggml/include/ggml-alloc.h \
        llama/llama.cpp/ggml/include/ggml-backend.h llama/llama.cpp/ggml/include/ggml-cpu.h \
        llama/llama.cpp/ggml/include/ggml-opt.h llama/llama.cpp/ggml/include/gguf.h \
        cmd/liblesext/csrc/lesext.h mobile/common/les-mobile.h "$to"
}

prerequisites
run scripts/llama.sh fetch
run scripts/llama.sh apply
copy_tree mobile/android/lesext "$out/lesext"
copy_tree mobile/android/sample "$out/sample"
run cp mobile/android/settings.gradle.kts mobile/android/build.gradle.kts mobile/android/gradle.properties "$out"
install_headers
for abi in $abis; do
    target "$abi"
    build=$out/cmake-$abi
    build_libraries
    build_wrapper
    install_libraries
done
echo "build-android: $out is a Gradle project: gradle :lesext:assembleRelease makes the AAR, :sample:installDebug puts the sample on a phone"
