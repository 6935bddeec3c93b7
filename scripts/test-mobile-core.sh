#!/usr/bin/env bash
# Builds the C parts of the wrappers for phones on this machine and runs them on the
# reference model; Android's with a JDK, where there is one with jni.h. The library
# for applications must be built (target lesext).
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

java_home=$(readlink -f "$(command -v javac || true)" | sed 's|/bin/javac$||')
if [ ! -e "$java_home/include/jni.h" ]; then
    echo "test-mobile-core: skipped: no JDK with jni.h, for the part of Android"
    exit 0
fi
case $(uname -s) in Darwin) system=darwin ;; *) system=linux ;; esac
compile "$work/libles-jni.so" -shared -fPIC "-I$java_home/include" "-I$java_home/include/$system" \
    mobile/common/les-mobile.c mobile/android/lesext/src/main/c/les-jni.c
javac -d "$work" mobile/android/test/Model.java
# The machine of Java tells on its output of every misuse of JNI, and of Go's signal handlers, which is as it must be.
run "$java_home/bin/java" -Xcheck:jni -cp "$work" org.les.lesext.Model "$work/libles-jni.so" models/les-ref.gguf "$work/answer" >"$work/java"
if grep -A 3 'in native method' "$work/java"; then exit 1; fi
head -n "$(wc -l <"$work/answer")" "$work/roomy" | diff - "$work/answer"
echo "test-mobile-core: Android's part, with $("$java_home/bin/java" -version 2>&1 | head -n 1): passed"
