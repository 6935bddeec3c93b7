#!/usr/bin/env bash
# Compares the logits of an unpatched llama.cpp build with those of ours while LES is off, bit for
# bit. Both libraries run the same small program, tools/logits. Exits 1 at the first difference.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 1 || $1 == -* ]]; then
    cat >&2 <<EOF
usage: scripts/check-upstream.sh STOCK_LIBS [MODEL...]

  STOCK_LIBS  folder with libllama of the unpatched build of the same version, made with the
              same compiler and flags as build/bin
  MODEL       default: models/les-ref.gguf

For a build for another machine, CC is its compiler and LES_EMULATOR what runs its
programs: "qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu", or wine.
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
read -ra emulator <<< "${LES_EMULATOR:-}"
shapes=("512 1" "512 7" "64 100" "1 7") counts=(1 2)
if [[ ${#emulator[@]} -gt 0 ]]; then
    # An emulator is 10 to 50 times slower, and more so where threads spin.
    shapes=("512 7" "1 7") counts=(1)
    export OMP_WAIT_POLICY=passive
fi

# library FOLDER NAME: its file, whatever the system calls such files.
library() {
    local file
    for file in "$1/lib$2.so" "$1/lib$2.dylib" "$1/lib$2.dll" "$1/$2.dll"; do
        if [[ -e $file ]]; then
            echo "$file"
            return
        fi
    done
    echo "check-upstream: $1/lib$2.so is missing" >&2
    exit 1
}

# build LIBS OUT: the program, linked with the libraries of a folder.
build() {
    local found flags=("-Wl,-rpath,$1" "-Wl,--disable-new-dtags")
    found=$(library "$1" llama)
    [[ $found != *.dll ]] || flags=()
    "${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Illama/llama.cpp/include -Illama/llama.cpp/ggml/include \
        tools/logits/logits.c -o "$2" -L"$1" -lllama -lggml -lggml-base ${flags[@]+"${flags[@]}"}
}
build "$stock" "$work/stock"
build "$ours" "$work/ours"

# run SIDE LIBS ARGUMENT...: the program of one side. Windows looks for libraries where it is told.
run() {
    local side=$1 program
    export WINEPATH=$2
    shift 2
    for program in "$work/$side" "$work/$side.exe"; do
        [[ ! -e $program ]] || ${emulator[@]+"${emulator[@]}"} "$program" "$@"
    done
}

stock_base=$(library "$stock" ggml-base)
ours_base=$(library "$ours" ggml-base)
if grep -q les_model_new "$stock_base"; then
    echo "check-upstream: $stock has LES in it; it is not an unpatched build" >&2
    exit 1
fi
if ! grep -q les_model_new "$ours_base"; then
    echo "check-upstream: $ours has no LES in it; the comparison would show nothing" >&2
    exit 1
fi

# What lescli quantises for every program is read by the unpatched build too.
if [[ -x $ours/lescli ]]; then
    "$ours/lescli" quantize models/les-ref.gguf "$work/quantized.gguf" --layout stock >"$work/summary" 2>&1 || { cat "$work/summary" >&2; exit 1; }
    models+=("$work/quantized.gguf")
fi

bytes=0 runs=0
for model in "${models[@]}"; do
    for mode in plain default; do
        for threads in "${counts[@]}"; do
            for shape in "${shapes[@]}"; do
                read -r ubatch prompt <<< "$shape"
                for side in stock ours; do
                    run "$side" "${!side}" "$model" "$work/$side.logits" "$threads" "$ubatch" "$prompt" 8 "$mode"
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
