#!/usr/bin/env bash
# Packs what is built into build/les-VERSION-SYSTEM-MACHINE.tar.gz. The tree in it
# runs wherever it is unpacked. Processor instructions are those of this machine
# unless the build was configured with -DGGML_NATIVE=OFF.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
version=$(sed -n 's/^Version: //p' "$build/lesext.pc")
name=les-$version-$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)
stage=$build/dist
rm -rf "$stage"
trap 'rm -rf "$stage"' EXIT
DESTDIR='' cmake --install "$build" --prefix "$stage/$name" >/dev/null
cp "$root/LICENSE" "$stage/$name/LICENSE"
cp "$root/llama/llama.cpp/LICENSE" "$stage/$name/LICENSE.llama.cpp"
tar -C "$stage" --owner=0 --group=0 --numeric-owner -czf "$build/$name.tar.gz.part" "$name"
mv "$build/$name.tar.gz.part" "$build/$name.tar.gz"
echo "$build/$name.tar.gz"
