#!/usr/bin/env bash
# Compares streamed with resident, bit for bit, over slots, lookahead, threads, prompt lengths,
# batch widths, read delays and several sequences. Exits 1 at the first difference.
set -euo pipefail
cd "$(dirname "$0")/.."

lescli=${LESCLI:-${LES_BUILD_DIR:-build}/bin/lescli}
model=${1:-models/les-ref.gguf}

if [[ $# -gt 1 || $model == -* ]]; then
    echo "usage: scripts/verify-matrix.sh [MODEL]    (default: models/les-ref.gguf; \$LESCLI names another lescli)" >&2
    exit 2
fi
for file in "$lescli" "$model"; do
    if [[ ! -f $file ]]; then
        echo "verify-matrix: $file is missing" >&2
        exit 1
    fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
runs=0 logits=0 streamed=

# field NAME: a number from the JSON report, which has one field a line.
field() {
    sed -n "s/^  \"$1\": \([0-9]*\),\{0,1\}\$/\1/p" "$work/report.json"
}

# check WHAT FLAG...: one matrix. All combinations of the listed values are compared.
check() {
    local what=$1 start=$SECONDS
    shift
    if ! "$lescli" verify -m "$model" --json "$work/report.json" "$@" > "$work/log" 2>&1; then
        tail -n 5 "$work/log" >&2
        echo "verify-matrix: FAILED in $what: lescli verify -m $model $*" >&2
        exit 1
    fi
    streamed=$(field streamed_layers)
    if [[ $streamed -eq 0 ]]; then
        echo "verify-matrix: FAILED in $what: nothing was streamed" >&2
        exit 1
    fi
    runs=$((runs + $(field runs)))
    logits=$((logits + $(field logits)))
    printf '%-34s %4d runs identical  %4d s\n' "$what" "$(field runs)" $((SECONDS - start))
}

slots=floor,1,2,8,all

# Everything against everything where a run is cheap; the long prompt token by token on fewer slots.
check "short prompts, all widths" --les-slots $slots --les-lookahead 0,1 -t 1,2 -ub 1,64,512 --prompt-tokens 1,7 --gen 8
check "prompt of 300, wide"       --les-slots $slots --les-lookahead 0,1 -t 1,2 -ub 64,512 --prompt-tokens 300 --gen 4
check "prompt of 300, one by one" --les-slots floor,2,all --les-lookahead 0,1 -t 2 -ub 1 --prompt-tokens 300 --gen 1
check "4 sequences"               --les-slots $slots --les-lookahead 0,1 -t 2 -ub 64,512 --prompt-tokens 1,7,40 --gen 4 --seqs 4
# Delays change the order in which experts arrive, and make threads wait.
check "delays of 0-50 ms"         --les-slots floor,2,8 --les-lookahead 0,1 -t 1,2 -ub 512 --prompt-tokens 1,7 --gen 2 --read-delay 50ms
check "delays, 4 sequences"       --les-slots 1,all --les-lookahead 1 -t 2 -ub 64 --prompt-tokens 7 --gen 2 --seqs 4 --read-delay 50ms
check "short delays"              --les-slots floor,1,2,8 --les-lookahead 0,1 -t 2 -ub 64 --prompt-tokens 7 --gen 8 --read-delay 3ms
# The pool changes its size between steps and in them.
check "slots come and go"         --les-slots floor,8,all --les-lookahead 1 -t 2 -ub 1,64 --prompt-tokens 7,40 --gen 16 --seqs 2 --resize 2ms

echo "verify-matrix: identical: $logits logits in $runs runs of $model, $streamed layers streamed, $SECONDS s"
