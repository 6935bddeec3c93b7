#!/usr/bin/env bash
# Compares the logits of an unpatched llama.cpp build with those of ours while LES is off, bit for
# bit. Both libraries run the same small program, tools/logits. Exits 1 at the first difference.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 1 || $1 == -* ]]; then
    cat >&2 <<EOF
usage: scripts/check-upstream.sh STOCK_LIBS [MODEL...]

  STOCK_LIBS  folder with libllama.so of the unpatched build of the same version, made with the
              same compiler and flags as build/bin
  MODEL       default: models/les-ref.gguf
EOF
    exit 2
fi
stock=$(realpath "$1")
shift
ours=$(realpath "${LES_BUILD_DIR:-build}/bin")
models=("$@")
[[ ${#models[@]} -gt 0 ]] || models=(models/les-ref.gguf)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# build LIBS OUT: the program, linked with the libraries of a folder.
build() {
    if [[ ! -e $1/libllama.so ]]; then
        echo "check-upstream: $1/libllama.so is missing" >&2
        exit 1
    fi
    "${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include \
        tools/logits/logits.c -o "$2" -L"$1" -lllama -lggml -lggml-base -Wl,-rpath,"$1" -Wl,--disable-new-dtags
}
build "$stock" "$work/stock"
build "$ours" "$work/ours"

if grep -q les_model_new "$stock/libggml-base.so"; then
    echo "check-upstream: $stock has LES in it; it is not an unpatched build" >&2
    exit 1
fi
if ! grep -q les_model_new "$ours/libggml-base.so"; then
    echo "check-upstream: $ours has no LES in it; the comparison would show nothing" >&2
    exit 1
fi

bytes=0 runs=0
for model in "${models[@]}"; do
    for mode in plain default; do
        for threads in 1 2; do
            for shape in "512 1" "512 7" "64 100" "1 7"; do
                read -r ubatch prompt <<< "$shape"
                for side in stock ours; do
                    "$work/$side" "$model" "$work/$side.logits" "$threads" "$ubatch" "$prompt" 8 "$mode"
                done
                if ! cmp "$work/stock.logits" "$work/ours.logits" >&2; then
                    echo "check-upstream: DIFFERENT: $model, $mode, $threads threads, ubatch $ubatch, prompt $prompt" >&2
                    exit 1
                fi
                bytes=$((bytes + $(stat -c %s "$work/ours.logits")))
                runs=$((runs + 1))
            done
        done
    done
done
echo "check-upstream: identical: $((bytes / 4)) logits in $runs runs of ${#models[@]} models"
