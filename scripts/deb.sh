#!/usr/bin/env bash
# Packs what is built into build/les_VERSION_ARCHITECTURE.deb, with dpkg-deb. Processor
# instructions are those of this machine unless the build was configured with
# -DGGML_NATIVE=OFF. With --check the package is unpacked into an empty folder, and a
# program of it must stream the reference model there.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
version=$(sed -n 's/^Version: //p' "$build/lesext.pc")
machine=$(dpkg --print-architecture)
package=$build/les_${version}_$machine.deb
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
chmod 755 "$stage"
DESTDIR=$stage/root cmake --install "$build" --prefix /usr >/dev/null

# What the programs need of the system, by the tool that Debian's own packages use.
mkdir -p "$stage/debian" "$stage/root/DEBIAN" "$stage/root/usr/share/doc/les"
cp "$root/LICENSE" "$stage/root/usr/share/doc/les/copyright"
cp "$root/llama/llama.cpp/LICENSE" "$stage/root/usr/share/doc/les/copyright.llama.cpp"
echo 'Source: les' >"$stage/debian/control"
needs=$(cd "$stage" && dpkg-shlibdeps -O --ignore-missing-info -lroot/usr/lib root/usr/bin/* root/usr/lib/*.so 2>/dev/null |
    sed -n 's/^shlibs:Depends=//p')
cat >"$stage/root/DEBIAN/control" <<CONTROL
Package: les
Version: $version
Architecture: $machine
Maintainer: The LES authors <authors@les.invalid>
Depends: $needs
Conflicts: llama.cpp
Section: science
Priority: optional
Description: llama.cpp with experts streamed from flash
 Runs Mixture-of-Experts models that are larger than memory, with the programs,
 libraries and headers of llama.cpp.
CONTROL
dpkg-deb --root-owner-group --build "$stage/root" "$package.part" >/dev/null
mv "$package.part" "$package"
echo "$package"

[ "${1:-}" = --check ] || exit 0
dpkg -x "$package" "$stage/unpacked"
LES_SLOTS=floor "$stage/unpacked/usr/bin/llama-completion" -m "$root/models/les-ref.gguf" -p 'func main() {' -n 4 --temp 0 -no-cnv -c 128 -v \
    >"$stage/text" 2>"$stage/log" </dev/null || { tail -n 5 "$stage/log" >&2; exit 1; }
grep -q 'LES: .* expert slots' "$stage/log" || { echo "deb: the program of the package does not stream" >&2; exit 1; }
