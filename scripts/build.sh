#!/usr/bin/env bash
# Fetches llama.cpp, applies the patch series, configures and builds. Arguments
# are targets; without any, everything is built. It installs nothing: what is
# missing comes from scripts/setup.sh.
#
#   scripts/build.sh                all programs, into build/bin
#   scripts/build.sh lescli         only what lescli needs
#   scripts/build.sh llama-server   one program of llama.cpp
#
# Environment: LES_BUILD_DIR (build), LES_JOBS (one per processor),
# LES_CMAKE_ARGS (more arguments for cmake, split at spaces).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
cd "$root"

scripts/llama.sh fetch
scripts/llama.sh apply

# Only a new build directory is given a generator; an old one keeps its own.
generator=()
if [ ! -e "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then
    generator=(-G Ninja)
fi
# shellcheck disable=SC2206
arguments=(${LES_CMAKE_ARGS:-})
mkdir -p "$build"
cmake -S . -B "$build" ${generator[@]+"${generator[@]}"} ${arguments[@]+"${arguments[@]}"} \
    >"$build/configure.log" 2>&1 || { cat "$build/configure.log" >&2; exit 1; }
grep -E '^-- (LES|lescli):' "$build/configure.log" || true

jobs=${LES_JOBS:-$(getconf _NPROCESSORS_ONLN)}
targets=("$@")
[ "${#targets[@]}" -gt 0 ] || targets=(all)
# One --target for all of them, so that they are built side by side.
cmake --build "$build" --parallel "$jobs" --target "${targets[@]}"
