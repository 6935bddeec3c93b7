#!/usr/bin/env bash
# Takes the table "Fewer bits for experts" of docs/MEASURED.md anew: files of the reference model made by llama-quantize
# and by lescli quantize, which must be the same weights, measured by llama-perplexity on held-out text.
#
#   scripts/bench-quantize.sh OUT_DIR [ROW...]    a file for each row; what is there is kept
#
# Environment: CHUNKS (100) of held-out text, CALIBRATION (300) chunks for the importance data. Takes an hour of two
# processors; rows are named below.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 1 || $1 == -* ]]; then
    sed -n '2,/^$/s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
mkdir -p "$1"
out=$(realpath "$1") bin=$(realpath "${LES_BUILD_DIR:-build}/bin") model=$PWD/models/les-ref.gguf
shift
rows=("$@")
[[ ${#rows[@]} -gt 0 ]] || rows=(q4_k_m q4_k_m-imatrix q3_k-q4_k_m q3_k-q4_k_m-imatrix mix-imatrix pure-q3_k-imatrix
    iq3_s-q4_k_m-imatrix iq3_xxs-q4_k_m-imatrix iq4_xs-q4_k_m-imatrix q2_k-q4_k_m-imatrix)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# quietly COMMAND...: what it says is shown when it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || { tail -20 "$work/log" >&2; exit 1; }
}

# Go source that is neither held out nor a twin of it, part after part.
calibrate() {
    [[ ! -e $out/imatrix.gguf ]] || return 0
    (cd "$(go env GOROOT)/src" && cat encoding/json/*.go net/http/server.go net/http/transport.go go/parser/parser.go \
        os/file*.go time/*.go sort/*.go fmt/*.go regexp/*.go) >"$work/calibration.txt"
    quietly "$bin/llama-imatrix" -m "$model" -f "$work/calibration.txt" -o "$work/imatrix.gguf" -c 512 --chunks "${CALIBRATION:-300}" \
        --no-repack --no-ppl
    mv "$work/imatrix.gguf" "$out/imatrix.gguf"
}

# make ROW: $work/row.gguf by lescli, checked against llama-quantize's where that can make it.
make() {
    local data=() experts=${1%%-*} ours=() theirs=()
    [[ $1 != *-imatrix ]] || data=(--imatrix "$out/imatrix.gguf")
    case $1 in
    mix-*) ours=(--target-size 13996960) ;; # that of the plain mix
    pure-*) theirs=(--pure "${data[@]}" "$model" "$work/theirs.gguf" Q3_K_S) ;;
    q4_k_m*) theirs=(${data[@]+"${data[@]}"} "$model" "$work/theirs.gguf" Q4_K_M) ;;
    *)
        ours=(--experts "$experts")
        theirs=(--tensor-type "_exps=$experts" ${data[@]+"${data[@]}"} "$model" "$work/theirs.gguf" Q4_K_M)
        ;;
    esac
    [[ ${#theirs[@]} -eq 0 ]] || quietly "$bin/llama-quantize" "${theirs[@]}"
    if [[ ${#ours[@]} -eq 0 ]]; then
        mv "$work/theirs.gguf" "$work/row.gguf"
        return
    fi
    quietly "$bin/lescli" quantize "$model" "$work/row.gguf" --force --layout stock ${data[@]+"${data[@]}"} "${ours[@]}"
    # The metadata differ in the path of the importance data; the weights are at the end.
    if [[ ${#theirs[@]} -gt 0 ]] && ! cmp -s <(tail -c 10000000 "$work/row.gguf") <(tail -c 10000000 "$work/theirs.gguf"); then
        echo "bench-quantize: $1: lescli's file differs from llama-quantize's" >&2
        exit 1
    fi
}

# compare: llama-perplexity leaves its log to a thread that its end does not wait for, so that the last lines, which are
# wanted here, are lost now and then.
compare() {
    local try
    for try in 1 2 3 4 5; do
        quietly "$bin/llama-perplexity" -m "$work/row.gguf" --kl-divergence-base "$out/base.kld" --kl-divergence -c 512 --no-repack
        ! grep -q '^Same top p' "$work/log" || return 0
    done
    echo "bench-quantize: llama-perplexity lost its last lines $try times" >&2
    exit 1
}

# measure ROW: the end of what llama-perplexity says, under the size of the file.
measure() {
    [[ ! -e $out/$1.txt ]] || return 0
    make "$1"
    compare
    { echo "size: $(stat -c %s "$work/row.gguf")" && sed -n '/^====== Perplexity/,$p' "$work/log" | grep -v '^llama_\|^$' ; } >"$work/$1.txt"
    mv "$work/$1.txt" "$out/$1.txt"
    echo "$1: $(grep -E '^(size|Mean PPL\(Q\) |Mean +KLD|99.0% +KLD|Same)' "$out/$1.txt" | tr -s ' ' | paste -sd ' ')"
}

calibrate
if [[ ! -e $out/base.kld ]]; then
    quietly "$bin/llama-perplexity" -m "$model" -f models/heldout.txt --kl-divergence-base "$work/base.kld" -c 512 \
        --chunks "${CHUNKS:-100}" --no-repack
    mv "$work/base.kld" "$out/base.kld"
fi
for row in "${rows[@]}"; do
    measure "$row"
done
