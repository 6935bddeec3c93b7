#!/usr/bin/env bash
# From a fresh checkout to text: installs what is missing, builds lescli and the
# libraries under it, and runs the reference model with only a few expert slots for
# each layer in memory. The summary lescli ends with says what was read and how
# long it was waited for.
#
# Environment: LES_PROMPT, LES_SLOTS (expert slots per layer, 4), LES_MODEL (read
# by lescli: a GGUF file instead of the reference model).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
prompt=${LES_PROMPT:-// Reverse returns a copy of s with its bytes in reverse order.}
slots=${LES_SLOTS:-4}
cd "$root"

step() { printf '\n== %s\n' "$*"; }

step "1/3 tools"
scripts/setup.sh

step "2/3 build lescli and the libraries it needs"
scripts/build.sh lescli
if [ ! -x "$build/bin/lescli" ]; then
    echo "demo.sh: $build/bin/lescli was not built" >&2
    exit 1
fi

step "3/3 run: with $slots expert slots a layer above the least that works; all other experts stay on flash"
arguments=(run -p "$prompt" --les-slots "$slots")
printf '$ %s' "$build/bin/lescli"
printf ' %q' "${arguments[@]}"
printf '\n\n'
exec "$build/bin/lescli" "${arguments[@]}" </dev/null
