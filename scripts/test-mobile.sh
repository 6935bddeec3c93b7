#!/usr/bin/env bash
# Tests the builds for phones without their SDKs: what is missing is named, one
# thing at a time, and the commands are those that the SDKs' documentation asks
# for. SDKs are faked as folders, tools as scripts that say a version.
# shellcheck disable=SC2016 # of fakes, whose text is expanded when they run
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# The tools that the scripts look for, and nothing else of this machine's.
tools=$work/tools
mkdir "$tools"
for tool in bash sh env sed sort head printf dirname basename cp rm mkdir find cat uname getconf tr; do
    ln -s "$(command -v "$tool")" "$tools/$tool"
done
fake() { # NAME TEXT: a program that prints the text
    rm -f "$tools/$1"
    printf '#!/bin/sh\n%s\n' "$2" >"$tools/$1"
    chmod +x "$tools/$1"
}
fake git 'exit 9'
fake cmake 'exit 9'
fake ninja 'exit 9'
want_go=$(sed -n 's/^go //p' "$root/go.mod")
fake go "echo go$want_go.1"

unset ANDROID_NDK_HOME ANDROID_API ANDROID_ABIS OHOS_SDK_HOME IOS_MIN IOS_ARM_ARCH LES_JOBS
export LES_JOBS=2

pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    printf 'FAIL  %s\n' "$1"
    printf '%s\n' "$2" | head -n 20 | sed 's/^/      /'
}

# that RULE COMMAND...: the command says yes of what the last script did.
that() {
    local rule=$1
    shift
    if "$@"; then pass; else fail "$rule" "$out"; fi
}
did_nothing() { [ "$status" -eq 0 ] && [ ! -e "$work/out" ]; }
ended_with() { [ "$status" -eq "$1" ] && [[ $out == *"$2"* ]]; }
says_not() { [[ $out != *"$1"* ]]; }

# script NAME ARGUMENT...: its output and status, with the faked tools alone.
script() {
    local name=$1
    shift
    out=$(PATH=$tools "$root/scripts/build-$name.sh" --out "$work/out" "$@" 2>&1)
    status=$?
}

# lacks RULE NAME TEXT: exactly one thing is missing, and it is named.
lacks() {
    script "$2"
    if [ "$status" -ne 1 ]; then fail "$1: status $status" "$out"
    elif [[ $out != *"missing: $3"* ]]; then fail "$1: no \"$3\"" "$out"
    elif [ "$(grep -c 'missing: ' <<<"$out")" -ne 1 ]; then fail "$1: more than one thing" "$out"
    elif [[ $out == *cmake\ -S* ]] || [ -e "$work/out" ]; then fail "$1: something was done" "$out"
    else pass
    fi
}

# prints RULE TEXT: the last script printed a line with all of these words, in order.
prints() {
    local rule=$1 pattern
    shift
    pattern=$(printf '.*%s' "$@")
    if grep -q -- "${pattern#.\*}" <<<"$out"; then pass; else fail "$rule: no line with $*" "$out"; fi
}

fake_ndk() {
    local bin=$1/toolchains/llvm/prebuilt/linux-x86_64/bin triple
    [ "$(uname -s)" != Darwin ] || bin=$1/toolchains/llvm/prebuilt/darwin-x86_64/bin
    mkdir -p "$bin" "$1/build/cmake"
    echo 'Pkg.Revision = 27.2.12479018' >"$1/source.properties"
    : >"$1/build/cmake/android.toolchain.cmake"
    for triple in aarch64 x86_64; do
        printf '#!/bin/sh\n' >"$bin/$triple-linux-android28-clang"
        chmod +x "$bin/$triple-linux-android28-clang"
    done
}

android_prerequisites() {
    local ndk=$work/ndk
    lacks "no NDK named" android 'ANDROID_NDK_HOME (the folder'
    export ANDROID_NDK_HOME=$ndk
    lacks "an NDK that is not there" android "the folder that ANDROID_NDK_HOME names: $ndk"
    mkdir "$ndk"
    lacks "a folder that is no NDK" android "$ndk/source.properties"
    fake_ndk "$ndk"
    echo 'Pkg.Revision = 25.1.8937393' >"$ndk/source.properties"
    lacks "an old NDK" android "NDK 27 or newer, $ndk is 25.1.8937393"
    echo 'Pkg.Revision = 28.0.1-beta1' >"$ndk/source.properties"
    rm "$ndk/build/cmake/android.toolchain.cmake"
    lacks "no toolchain file" android "$ndk/build/cmake/android.toolchain.cmake"
    fake_ndk "$ndk"
    ANDROID_API=99 ANDROID_ABIS=x86_64 lacks "no compiler for an API" android "$ndk/toolchains/llvm/prebuilt/"
    ANDROID_API=21 ANDROID_ABIS=armeabi-v7a lacks_two
    ANDROID_ABIS=armeabi-v7a lacks "an ABI that is not built" android 'support for the ABI armeabi-v7a'
    ANDROID_API=new ANDROID_ABIS='' lacks "an API that is no number" android 'a number in ANDROID_API, not "new"'
    tool_prerequisites android git cmake ninja
}

# Everything that is missing is named at once.
lacks_two() {
    script android
    that "the first of two things" ended_with 1 "ANDROID_API of at least 28"
    that "the second of two things" ended_with 1 "support for the ABI"
    that "their number" ended_with 1 "2 missing, nothing was built"
}

# tool_prerequisites NAME TOOL...: with everything else there, each tool is missed.
tool_prerequisites() {
    local tool script=$1
    shift
    for tool in "$@"; do
        mv "$tools/$tool" "$work/hidden"
        lacks "no $tool" "$script" "$tool ("
        mv "$work/hidden" "$tools/$tool"
    done
    mv "$tools/go" "$work/hidden"
    lacks "no Go" "$script" "Go $want_go or newer (go.dev/dl)"
    fake go 'echo go1.4'
    lacks "an old Go" "$script" "Go $want_go or newer, this is 1.4"
    mv "$work/hidden" "$tools/go"
}

android_commands() {
    script android --dry-run
    that "a dry run does nothing" did_nothing
    prints "the toolchain file" 'cmake -S . -B' "-DCMAKE_TOOLCHAIN_FILE=$ANDROID_NDK_HOME/build/cmake/android.toolchain.cmake" -DANDROID_ABI=arm64-v8a -DANDROID_PLATFORM=android-28
    prints "pages of 16 KiB" -DANDROID_ABI=x86_64 -DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON
    prints "kernels with and without dotprod and i8mm" -DGGML_BACKEND_DL=ON -DGGML_CPU_ALL_VARIANTS=ON
    prints "Go for arm64" GOOS=android GOARCH=arm64 aarch64-linux-android28-clang CXX= aarch64-linux-android28-clang++ --build cmake-arm64-v8a --target llama ggml lesext
    prints "Go for x86_64" GOOS=android GOARCH=amd64 x86_64-linux-android28-clang
    prints "an engine for pages of 16 KiB" GOOS=android CGO_LDFLAGS=-Wl,-z,max-page-size=16384 --target
    prints "what is packed is looked at" page-size.sh "$ANDROID_NDK_HOME/toolchains/llvm/prebuilt/" /llvm-readelf 16384 jniLibs/arm64-v8a
    prints "the C++ library comes along" 'sysroot/usr/lib/aarch64-linux-android/libc++_shared.so' jniLibs/arm64-v8a
    ANDROID_ABIS=arm64-v8a script android --dry-run
    that "one ABI alone" says_not ANDROID_ABI=x86_64
    twice=$out
    ANDROID_ABIS=arm64-v8a script android --dry-run
    that "a dry run is the same twice" [ "$out" = "$twice" ]
}

android_failure() {
    # The first command that fails ends the build; here it is fetching, as git is no git.
    script android
    that "a command that fails ends the build" [ "$status" -ne 0 ]
    that "nothing comes after it" says_not "cmake -S"
    rm -rf "$work/out"
}

ios_prerequisites() {
    fake uname 'echo Linux'
    fake xcrun 'case $* in *--show-sdk-path) echo "/sdk/$2" ;; *) echo /usr/bin/clang ;; esac'
    fake xcodebuild 'echo Xcode 16.2'
    fake libtool 'exit 9'
    lacks "another system" ios 'macOS, this is Linux'
    fake uname 'echo Darwin'
    fake xcodebuild 'echo "xcode-select: error: tool xcodebuild requires Xcode" >&2; exit 1'
    lacks "command line tools alone" ios 'Xcode itself, not only its command line tools: xcode-select: error'
    fake xcodebuild 'echo Xcode 16.2'
    fake xcrun 'case $* in *iphonesimulator*) exit 1 ;; *) echo "/sdk/$2" ;; esac'
    lacks "no simulator" ios 'the SDK iphonesimulator'
    fake xcrun 'case $* in *--show-sdk-path) echo "/sdk/$2" ;; *) echo /usr/bin/clang ;; esac'
    rm "$tools/libtool"
    lacks "no libtool" ios 'libtool (Xcode)'
    fake libtool 'exit 9'
    IOS_MIN=15.4 lacks "an old iOS" ios 'IOS_MIN of at least 16.0, not 15.4'
    IOS_MIN=new lacks "an iOS that is no version" ios 'a version number in IOS_MIN, not "new"'
    tool_prerequisites ios git cmake ninja
}

ios_commands() {
    script ios --dry-run
    that "a dry run does nothing" did_nothing
    prints "a device" -DCMAKE_SYSTEM_NAME=iOS -DCMAKE_OSX_SYSROOT=iphoneos -DCMAKE_OSX_ARCHITECTURES=arm64 -DCMAKE_OSX_DEPLOYMENT_TARGET=17.0
    prints "a simulator" -DCMAKE_OSX_SYSROOT=iphonesimulator -DBUILD_SHARED_LIBS=OFF
    prints "the processor alone" -DGGML_CPU_ARM_ARCH=armv8.4-a+dotprod -DGGML_METAL=OFF
    prints "Go for devices" GOOS=ios GOARCH=arm64 '-isysroot /sdk/iphoneos -target arm64-apple-ios17.0' --build cmake-iphoneos --target llama ggml lesext-static
    prints "Go for the simulator" GOOS=ios '-isysroot /sdk/iphonesimulator -target arm64-apple-ios17.0-simulator'
    prints "one framework of both" 'xcodebuild -create-xcframework' cmake-iphoneos/libLesExt.a -headers cmake-iphonesimulator/libLesExt.a -headers LesExt.xcframework
    prints "a module map that meets no other" mobile/ios/module.modulemap include/LesExtC
    rm -f "$tools/xcrun" "$tools/xcodebuild" "$tools/libtool" "$tools/uname"
    ln -s "$(command -v uname)" "$tools/uname"
    script ios --dry-run
    that "a dry run anywhere" ended_with 0 "these are the commands all the same"
}

harmonyos_prerequisites() {
    local sdk=$work/ohos
    lacks "no SDK named" harmonyos 'OHOS_SDK_HOME (the folder'
    export OHOS_SDK_HOME=$sdk
    lacks "no native part" harmonyos "$sdk/native: OHOS_SDK_HOME does not name"
    mkdir -p "$sdk/native/build/cmake" "$sdk/native/build-tools/cmake/bin" "$sdk/native/llvm/bin"
    lacks "no description" harmonyos "$sdk/native/oh-uni-package.json"
    echo '{ "apiVersion": "9", "version": "3.2.11.9" }' >"$sdk/native/oh-uni-package.json"
    : >"$sdk/native/build/cmake/ohos.toolchain.cmake"
    local part
    for part in build-tools/cmake/bin/cmake build-tools/cmake/bin/ninja llvm/bin/clang llvm/bin/clang++; do
        printf '#!/bin/sh\n' >"$sdk/native/$part"
        chmod +x "$sdk/native/$part"
    done
    mkdir "$sdk/native/sysroot"
    lacks "an old API" harmonyos "API 12 or newer, $sdk/native is 9"
    printf '{\n  "apiVersion": "14",\n  "version": "5.0.2"\n}\n' >"$sdk/native/oh-uni-package.json"
    for part in build/cmake/ohos.toolchain.cmake build-tools/cmake/bin/cmake build-tools/cmake/bin/ninja llvm/bin/clang llvm/bin/clang++ sysroot; do
        mv "$sdk/native/$part" "$work/hidden-part"
        lacks "no $part" harmonyos "$sdk/native/$part"
        mv "$work/hidden-part" "$sdk/native/$part"
    done
    tool_prerequisites harmonyos git
}

harmonyos_commands() {
    script harmonyos --dry-run
    that "a dry run does nothing" did_nothing
    prints "the toolchain file" "-DCMAKE_TOOLCHAIN_FILE=$OHOS_SDK_HOME/native/build/cmake/ohos.toolchain.cmake" -DOHOS_ARCH=arm64-v8a -DOHOS_PLATFORM=OHOS
    prints "CMake of the SDK, which knows the system" "$OHOS_SDK_HOME/native/build-tools/cmake/bin/cmake -S" "-DCMAKE_MAKE_PROGRAM=$OHOS_SDK_HOME/native/build-tools/cmake/bin/ninja"
    prints "GNU's extensions" -DCMAKE_C_FLAGS=-D_GNU_SOURCE -DCMAKE_CXX_FLAGS=-D_GNU_SOURCE
    prints "a runtime that musl opens" scripts/lib/go-musl-overlay.sh "$work/out/go"
    prints "Go as for Linux" GOOS=linux GOARCH=arm64 "-overlay=$work/out/go/overlay.json" "--sysroot=$OHOS_SDK_HOME/native/sysroot" --target llama ggml lesext
}

options() {
    local name
    for name in android ios harmonyos; do
        script "$name" --wrong
        that "$name: a wrong option" ended_with 2 "unknown option --wrong"
        script "$name" --help
        that "$name: help" ended_with 0 "--dry-run"
    done
}

# page_sizes: libraries are looked at one by one. A faked readelf prints the file itself.
page_sizes() {
    local libs=$work/libs
    mkdir "$libs"
    fake readelf 'cat "$2"'
    printf '  LOAD 0x0 0x0 0x0 0x10 0x10 R E 0x%s\n' 4000 10000 >"$libs/good.so"
    page_size "$libs"
    that "multiples of 16 KiB and of 64" [ "$status" -eq 0 ]
    printf '  LOAD 0x0 0x0 0x0 0x10 0x10 R E 0x%s\n' 4000 1000 >"$libs/bad.so"
    page_size "$libs"
    that "one segment of 4 KiB" ended_with 1 "$libs/bad.so: a segment at a multiple of 4096 bytes only"
    that "the others are not named" says_not good.so
    : >"$libs/bad.so"
    page_size "$libs"
    that "a file without segments" ended_with 1 "$libs/bad.so: no segment is loaded"
}
page_size() {
    out=$("$root/scripts/lib/page-size.sh" "$tools/readelf" 16384 "$1" 2>&1)
    status=$?
}

# musl_overlay: the changes find their lines in this Go's runtime, which compiles with them, and say so where they do not.
musl_overlay() {
    local overlay=$root/scripts/lib/go-musl-overlay.sh
    out=$("$overlay" "$work/overlay" 2>&1 && GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build -overlay "$work/overlay/overlay.json" runtime 2>&1)
    status=$?
    that "a runtime that musl opens compiles" [ "$status" -eq 0 ]
    mkdir -p "$work/goroot/src/runtime"
    echo 'GLOBL runtime·tls_g+0(SB), TLSBSS, $16' >"$work/goroot/src/runtime/tls_arm64.s"
    fake go "echo $work/goroot"
    out=$(PATH=$tools:$PATH "$overlay" "$work/overlay" 2>&1)
    status=$?
    that "a runtime that is another one" ended_with 1 'tls_arm64.s is not as in Go'
}

# What the scripts copy of this directory is there.
sources() {
    local file
    while read -r file; do
        that "a file that the scripts copy: $file" [ -e "$root/$file" ]
    done < <(grep -ho '\bmobile/[A-Za-z0-9_./-]*' "$root"/scripts/build-android.sh "$root"/scripts/build-ios.sh "$root"/scripts/build-harmonyos.sh | sort -u)
}

android_prerequisites
android_commands
android_failure
ios_prerequisites
ios_commands
harmonyos_prerequisites
harmonyos_commands
options
page_sizes
musl_overlay
sources
printf 'test-mobile: %d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
