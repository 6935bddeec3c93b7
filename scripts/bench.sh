#!/usr/bin/env bash
# The standard set of measurements, as lescli bench does them: a table, JSON and a
# page with plots for each. Writes the model first if it is missing.
#
#   scripts/bench.sh NAME [MEASUREMENT...]
#
# Results go to docs/measured/NAME. Measurements: sweep, ladder, prefill, memory,
# bandwidth; without any, all of them. Environment: BENCH_MODEL (build/35b-a3b.gguf),
# BENCH_PRESET (35b-a3b, what a missing model is made with), BENCH_OUT
# (docs/measured), BENCH_ROUNDS (5), BENCH_WARMUP (16) and BENCH_TOKENS (32),
# BENCH_SLOTS (0,16,64,128), BENCH_CACHE (64, slots of the ladder and under a read
# limit), BENCH_PREFILL (512), BENCH_MEMORY (4G), STOCK_BENCH (an unpatched
# llama-bench to compare with in that memory; without it there is no such arm),
# BENCH_CONTIGUOUS and BENCH_Q3K (files for more rungs of the ladder),
# LES_BUILD_DIR (build).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
name=${1:?usage: scripts/bench.sh NAME [MEASUREMENT...]}
shift
build=${LES_BUILD_DIR:-$root/build}
lescli=$build/bin/lescli
model=${BENCH_MODEL:-$build/35b-a3b.gguf}
out=${BENCH_OUT:-$root/docs/measured}/$name
rounds=${BENCH_ROUNDS:-5}
cache=${BENCH_CACHE:-64}

known=(sweep ladder prefill memory bandwidth)
wanted=("$@")
[ "${#wanted[@]}" -gt 0 ] || wanted=("${known[@]}")
for what in "${wanted[@]}"; do
    [[ " ${known[*]} " == *" $what "* ]] || { echo "bench.sh: $what is none of: ${known[*]}" >&2; exit 2; }
done

[ -x "$lescli" ] || { echo "bench.sh: $lescli is missing: run scripts/build.sh lescli" >&2; exit 1; }
mkdir -p "$out"
if [ ! -e "$model" ]; then
    mkdir -p "$(dirname "$model")"
    "$lescli" synth "$model" --preset "${BENCH_PRESET:-35b-a3b}"
fi

# measure runs one bench, if it is wanted, and keeps its table, JSON and page.
measure() {
    local what=$1
    shift
    [[ " ${wanted[*]} " == *" $what "* ]] || return 0
    printf '\n%s: lescli bench %s\n' "$what" "$*"
    "$lescli" bench -m "$model" -r "$rounds" --warmup "${BENCH_WARMUP:-16}" "$@" \
        --json "$out/$what.json" --html "$out/$what.html" 2>"$out/$what.err" | tee "$out/$what.txt" ||
        { cat "$out/$what.err" >&2; exit 1; }
    rm -f "$out/$what.err"
}

tokens=(-n "${BENCH_TOKENS:-32}")
measure sweep "${tokens[@]}" --sweep "slots=${BENCH_SLOTS:-0,16,64,128},all,off"
measure ladder "${tokens[@]}" --ladder --les-slots "$cache" \
    ${BENCH_CONTIGUOUS:+--contiguous "$BENCH_CONTIGUOUS"} ${BENCH_Q3K:+--q3k "$BENCH_Q3K"}
measure prefill -n 0 --prefill "${BENCH_PREFILL:-512}" --sweep "slots=0,$cache,all"
if [ "$(id -u)" != 0 ]; then
    echo "bench.sh: not root: no measurements with less memory or slower flash"
    exit 0
fi
measure memory "${tokens[@]}" --memory "${BENCH_MEMORY:-4G}" ${STOCK_BENCH:+--stock "$STOCK_BENCH" --stock-n 3}
measure bandwidth "${tokens[@]}" --bandwidth 1G,0.5G --sweep "slots=0,$cache,all" --sweep lookahead=0,1
