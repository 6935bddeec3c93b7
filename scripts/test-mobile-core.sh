#!/usr/bin/env bash
# Builds the C part of the wrappers for phones on this machine and runs it on the
# reference model. The library for applications must be built (target lesext).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}/bin
cd "$root"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Werror \
    -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include -Icmd/liblesext/csrc -Imobile/common \
    mobile/common/les-mobile.c mobile/common/test-les-mobile.c -o "$work/test" \
    "-L$build" -llesext -lllama -lggml -lggml-base "-Wl,-rpath,$build" "-Wl,-rpath-link,$build"
"$work/test" models/les-ref.gguf
