#!/usr/bin/env bash
# Measures drafting: no drafts, the controller, and fixed widths, in turn. The
# reference model with its drafter, streamed and resident, and a model of the
# 35B-A3B shape with synthetic acceptance, at full bandwidth and at 1 GB/s (root).
#
#   scripts/bench-draft.sh OUT [reference|large]...
#
# OUT gets the tables and the JSON. What does not begin within LIMIT_SECONDS is
# left out with a line.
#
# Environment: BENCH_MODEL (build/35b-a3b.gguf), LIMIT_SECONDS (3600), and for all
# tables at once ROUNDS and TOKENS, which are else those of docs/MEASURED.md.
set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$1
shift
[ $# -gt 0 ] || set -- reference large
large=${BENCH_MODEL:-$root/build/35b-a3b.gguf}
lescli=$root/build/bin/lescli
status=0
mkdir -p "$out"

measure() {
    local name=$1
    shift
    if [ "$SECONDS" -gt "${LIMIT_SECONDS:-3600}" ]; then
        echo "$name: left out, the time is over"
        return
    fi
    echo "$name: begun after $SECONDS s"
    "$lescli" bench "$@" --json "$out/$name.json" >"$out/$name.txt" 2>"$out/$name.log" || { tail -n 3 "$out/$name.log"; status=1; return; }
    rm "$out/$name.log"
    sed -n '/^drafts:/,/^$/p' "$out/$name.txt"
}

# Answers are drawn, since likeliest tokens soon repeat themselves. A process for each
# sample, because arms of a model so small differ by where their memory lies.
reference() {
    measure reference -m "$root/models/les-ref.gguf" --draft "$root/models/les-ref-dspark.gguf" -f "$root/models/heldout.txt" \
        -p 128 -n "${TOKENS:-240}" -r "${ROUNDS:-5}" --warmup 64 --draft-temp 0.6 --draft-widths 1,3,7 \
        --processes sample --sweep slots=off,0,2,8
}

# Arms of one bandwidth share a process, whose slots stay warm.
large() {
    local rate chance
    for chance in 0.5 0.7 0.9; do
        for rate in none 1G; do
            measure "large-$rate-$chance" -m "$large" --draft-type synthetic --draft-acceptance "$chance" --draft-noise 0.1 \
                -n "${TOKENS:-160}" -r "${ROUNDS:-1}" --warmup 8 --draft-widths 1,3,7 --processes arm --les-slots 8 --bandwidth "$rate"
        done
    done
}

for part in "$@"; do
    case $part in
    reference) reference ;;
    large) large ;;
    *) echo "bench-draft: no part $part" >&2; exit 1 ;;
    esac
done
exit "$status"
