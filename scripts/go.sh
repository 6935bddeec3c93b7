#!/usr/bin/env bash
# Runs the go command with the flags that cgo packages need to find llama.cpp and
# the LES headers: `scripts/go.sh test ./cgo/...`. The libraries must be built
# (scripts/build.sh llama). Pure Go packages need none of it: plain `go` is fine.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
llama=$root/llama/llama.cpp
cd "$root"

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-16
}

# The go command notices changes of headers in a package's own directory only.
# Their hash in the flags makes it rebuild when any header it includes changed, or
# a source of llama.cpp that is compiled as it is.
headers=$({
    find "$llama/include" "$llama/ggml/include" "$llama/common" cgo -name '*.h' -type f
    find "$llama/tools/imatrix" "$llama/tools/perplexity" -name '*.cpp' -type f
} 2>/dev/null |
    LC_ALL=C sort | while read -r file; do cat "$file"; done | sha256)

# Programs find the libraries beside them, wherever build/bin is moved to. Test
# binaries run from a temporary directory and are told by the environment.
include="'-I$llama/include' '-I$llama/ggml/include' '-I$root/cgo/les/csrc' -DLES_HEADERS=0x$headers"
case $(go env GOOS) in
darwin | ios)
    rpath="-Wl,-rpath,@loader_path -Wl,-rpath,@loader_path/../lib"
    export DYLD_LIBRARY_PATH="$build/bin${DYLD_LIBRARY_PATH:+:$DYLD_LIBRARY_PATH}"
    ;;
windows)
    rpath= # libraries are found beside the program, and where WINEPATH says
    export WINEPATH="$build/bin${WINEPATH:+;$WINEPATH}"
    ;;
*)
    rpath="-Wl,-rpath,\$ORIGIN -Wl,-rpath,\$ORIGIN/../lib '-Wl,-rpath-link,$build/bin'"
    export LD_LIBRARY_PATH="$build/bin${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    ;;
esac
# A program carries the commit it was built from: measurements are worth little
# without it, and the go command finds none in a worktree of git. It also tells of
# which version of llama.cpp it is, and how many patches are on it.
if [ "${1:-}" = build ] && commit=$(git rev-parse HEAD 2>/dev/null); then
    git diff --quiet HEAD 2>/dev/null || commit=$commit+changes
    tag=$(sed -n 's/^tag  *//p' llama/upstream.lock)
    series=$(find patches -name '*.patch' | wc -l)
    shift
    set -- build -ldflags "-X main.commit=$commit -X main.upstream=$tag -X main.patches=$((series))" "$@"
fi
export CGO_ENABLED=1
export CGO_CFLAGS="${CGO_CFLAGS:--O2 -g} $include"
export CGO_CXXFLAGS="${CGO_CXXFLAGS:--O2 -g} $include"
export CGO_LDFLAGS="${CGO_LDFLAGS:-} '-L$build/bin' $rpath"
exec go "$@"
