#!/usr/bin/env bash
# Installs what is built into an empty folder, moves it, and builds and runs the
# examples against it: C with pkg-config, C++ with find_package, C with the static
# archive. Streamed text must be that of everything resident.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
model=$root/models/les-ref.gguf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prompt='func main() {'
budget=100M

fail() { printf 'test-embed: %s\n' "$*" >&2; exit 1; }

# Installed below DESTDIR and then moved: nothing may remember where it was.
DESTDIR=$work/stage cmake --install "$build" --prefix /usr/local >"$work/install.log" || { cat "$work/install.log" >&2; exit 1; }
mv "$work/stage/usr/local" "$work/les"
prefix=$work/les
for file in include/lesext.h include/llama.h lib/liblesext.so.0 lib/liblesext-engine.so lib/liblesext.a lib/pkgconfig/lesext.pc \
            lib/cmake/lesext/lesext-config.cmake; do
    [ -e "$prefix/$file" ] || fail "$file is not installed: scripts/build.sh and scripts/build.sh lesext-static come first"
done

if readelf -d "$prefix"/lib/*.so "$prefix"/bin/* | grep -F "$root"; then fail "an installed file looks for libraries in the build"; fi

# The header alone, as strictly as compilers can.
printf '#include <lesext.h>\nint main(void) { return 0; }\n' >"$work/header.c"
cc -std=c99 -Wall -Wextra -pedantic -Werror "-I$prefix/include" -fsyntax-only "$work/header.c"
c++ -x c++ -std=c++11 -Wall -Wextra -pedantic -Werror "-I$prefix/include" -fsyntax-only "$work/header.c"

# expect_text PROGRAM...: the text of a run that streams.
expect_text() {
    "$@" "$model" "$budget" "$prompt" >"$work/text" 2>"$work/report" || fail "$1: $(cat "$work/report")"
    cmp -s "$work/text" "$work/resident" || fail "$1: the text is not that of everything resident: $(cat "$work/text")"
    grep -q 'bytes read$' "$work/report" || fail "$1: $(cat "$work/report")"
    ! grep -q ' 0 bytes read$' "$work/report" || fail "$1: nothing was read"
}

# expect_refusal PROGRAM ARGUMENT...: a budget that is no size is refused.
expect_refusal() {
    local status=0
    "$@" 2>"$work/report" || status=$?
    [ "$status" -eq 2 ] || fail "$*: status $status: $(cat "$work/report")"
    grep -q '^embed: size: ' "$work/report" || fail "$*: $(cat "$work/report")"
}

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
# shellcheck disable=SC2046
cc -std=c99 -Wall -Wextra -Werror "$root/examples/embed/main.c" $(pkg-config --cflags --libs lesext) "-Wl,-rpath,$prefix/lib" -o "$work/embed"
"$build/bin/lescli" run -m "$model" --les off -p "$prompt" -n 24 --temp 0 2>/dev/null >"$work/resident"
expect_text "$work/embed"
for size in 4X '' x 0; do expect_refusal "$work/embed" "$model" "$size" "$prompt"; done

cc -std=c99 -Wall -Wextra "$root/examples/embed/main.c" "-I$prefix/include" "$prefix/lib/liblesext.a" "-L$prefix/lib" \
    -lllama -lggml -lggml-base -lpthread -lstdc++ -lm -ldl "-Wl,-rpath,$prefix/lib" -o "$work/embed-static"
if ldd "$work/embed-static" | grep -q lesext; then fail "the static example still wants a library"; fi
expect_text "$work/embed-static"

build_cxx() {
    cmake -S "$root/examples/embed" -B "$work/cxx" "-DCMAKE_PREFIX_PATH=$prefix" && cmake --build "$work/cxx"
}
build_cxx >"$work/cmake.log" || { cat "$work/cmake.log" >&2; exit 1; }
"$work/cxx/embed" "$model" "$budget" | tee "$work/report"
grep -q 'results equal' "$work/report" || fail "results differ under pressure"
awk '{ exit !($2 + 0 > $5 + 0 && $2 + 0 == $7 + 0) }' "$work/report" || fail "slots did not come back"
expect_refusal "$work/cxx/embed" "$model" 4X

# A program of the moved tree finds its libraries, and the engine.
LES_SLOTS=floor "$prefix/bin/llama-completion" -m "$model" -p "$prompt" -n 4 --temp 0 -no-cnv -c 128 -v </dev/null >"$work/text" 2>"$work/report" ||
    fail "llama-completion: $(tail -n 3 "$work/report")"
grep -q 'LES: .* expert slots' "$work/report" || fail "llama-completion of the installed tree does not stream"
echo "test-embed: installed, moved, built and run"
