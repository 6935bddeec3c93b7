#!/usr/bin/env bash
# Builds the C parts of the wrappers for phones on this machine and runs them on the
# reference model; Android's with a JDK, where there is one with jni.h, and the one in
# Swift where there is its compiler, 6 or newer. The library for applications must be
# built (target lesext).
#
# Environment: LES_SWIFT, what comes before commands of a Swift that is elsewhere (a
# chroot, which sees the same folders).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}/bin
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile OUT ARGUMENT...: with the libraries that an app has.
compile() {
    local out=$1
    shift
    "${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Werror \
        -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include -Icmd/liblesext/csrc -Imobile/common \
        "$@" -o "$out" "-L$build" -llesext -lllama -lggml -lggml-base "-Wl,-rpath,$build" "-Wl,-rpath-link,$build"
}

# core BYTES: the answer, with so many bytes of text at first.
core() {
    compile "$work/les-mobile.o" -c -Dllama_decode=les_test_decode "-DLES_MOBILE_TEXT=$1" mobile/common/les-mobile.c
    compile "$work/test" "$work/les-mobile.o" mobile/common/test-les-mobile.c
    run "$work/test" models/les-ref.gguf
}

# run COMMAND...: llama.cpp's log is shown where the command fails.
run() {
    "$@" 2>"$work/log" || { tail -n 40 "$work/log" >&2; return 1; }
}

core 4096 >"$work/roomy"
core 1 >"$work/tight" # every token's text is longer
cmp "$work/roomy" "$work/tight"
echo "test-mobile-core: the C part: passed"

# same FILE: it is the first answer.
same() { head -n "$(wc -l <"$1")" "$work/roomy" | diff - "$1"; }

android() {
    local home system=linux
    home=$(readlink -f "$(command -v javac || true)" | sed 's|/bin/javac$||')
    if [ ! -e "$home/include/jni.h" ]; then
        echo "skipped: javac is not installed, or without jni.h: Android's part"
        return
    fi
    [ "$(uname -s)" != Darwin ] || system=darwin
    compile "$work/libles-jni.so" -shared -fPIC "-I$home/include" "-I$home/include/$system" \
        mobile/common/les-mobile.c mobile/android/lesext/src/main/c/les-jni.c
    javac -d "$work" mobile/android/test/Model.java
    # The machine of Java tells on its output of every misuse of JNI, and of Go's signal handlers, which is as it must be.
    run "$home/bin/java" -Xcheck:jni -cp "$work" org.les.lesext.Model "$work/libles-jni.so" models/les-ref.gguf "$work/java.answer" >"$work/java"
    if grep -A 3 'in native method' "$work/java"; then return 1; fi
    same "$work/java.answer"
    echo "test-mobile-core: Android's part, with $("$home/bin/java" -version 2>&1 | head -n 1): passed"
}

swift() {
    local elsewhere=() version
    read -ra elsewhere <<<"${LES_SWIFT:-}"
    version=$(${elsewhere[@]+"${elsewhere[@]}"} swiftc --version 2>/dev/null | sed -n 's/.*\(Swift version [0-9.]*\).*/\1/p' || true)
    if [ -z "$version" ]; then
        echo "skipped: swiftc is not installed: the part of iOS"
        return
    fi
    mkdir "$work/LesExtC"
    cp llama/llama.cpp/include/llama.h llama/llama.cpp/ggml/include/{ggml,ggml-alloc,ggml-backend,ggml-cpu,ggml-opt,gguf}.h \
        cmd/liblesext/csrc/lesext.h mobile/common/les-mobile.h mobile/ios/module.modulemap "$work/LesExtC"
    compile "$work/les-mobile.o" -c -fPIC mobile/common/les-mobile.c
    ${elsewhere[@]+"${elsewhere[@]}"} swiftc -swift-version 6 -warnings-as-errors "-I$work/LesExtC" \
        "$root/mobile/ios/LesExt/Sources/LesExt/Model.swift" "$root/mobile/ios/test/main.swift" "$work/les-mobile.o" -o "$work/swift" \
        "-L$build" -llesext -lllama -lggml -lggml-base -Xlinker -rpath -Xlinker "$build"
    run ${elsewhere[@]+"${elsewhere[@]}"} "$work/swift" "$root/models/les-ref.gguf" "$work/swift.answer"
    same "$work/swift.answer"
    echo "test-mobile-core: the part of iOS, with $version: passed"
}

android
swift
