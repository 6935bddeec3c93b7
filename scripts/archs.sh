#!/usr/bin/env bash
# Compares streamed with resident on every architecture that llama.cpp's own generator of
# small models writes, and makes docs/ARCHS.md from it. Exits 1 if any is not identical.
set -euo pipefail
cd "$(dirname "$0")/.."

lescli=${LESCLI:-${LES_BUILD_DIR:-build}/bin/lescli}
generator=${LES_BUILD_DIR:-build}/bin/test-llama-archs
out=docs/ARCHS.md
dir=

usage() {
    cat <<EOF
usage: scripts/archs.sh [--dir DIR] [--out FILE]

  --dir DIR   use the models there instead of generating them with $generator
  --out FILE  where the table goes (default: $out)

\$LESCLI names another lescli than $lescli.
EOF
}

while [[ $# -gt 0 ]]; do
    case $1 in
        --dir) dir=${2:?--dir needs a value}; shift 2 ;;
        --out) out=${2:?--out needs a value}; shift 2 ;;
        -h | --help) usage; exit 0 ;;
        *) echo "archs.sh: unknown argument $1" >&2; usage >&2; exit 2 ;;
    esac
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [[ ! -x $lescli ]]; then
    echo "archs.sh: $lescli is missing; build it first" >&2
    exit 1
fi
if [[ -z $dir ]]; then
    if [[ ! -x $generator ]]; then
        echo "archs.sh: $generator is missing; build it, or give models with --dir" >&2
        exit 1
    fi
    dir=$work/models
    mkdir "$dir"
    "$generator" -o "$dir" > "$work/generator.log" 2>&1 || {
        tail -n 20 "$work/generator.log" >&2
        exit 1
    }
fi
shopt -s nullglob
models=("$dir"/*.gguf)
if [[ ${#models[@]} -eq 0 ]]; then
    echo "archs.sh: no models in $dir" >&2
    exit 1
fi

# field NAME: the value of a field of the JSON report, which has one field a line.
field() {
    sed -n "s/^  \"$1\": \"\{0,1\}\(.*\)\$/\1/p" "$work/report.json" | sed 's/",\{0,1\}$//; s/,$//'
}

# form NODES: how the layers are computed.
form() {
    case $1 in
        0) echo "not used by the graph" ;;
        1) echo fused ;;
        *) echo "$1 nodes a layer" ;;
    esac
}

streamed_moe=0 resident_moe=0 dense=0 failed=0

# verify MODEL SLOTS: compares runs with those slots.
verify() {
    "$lescli" verify -m "$1" --les-slots "$2" --les-lookahead 0,1 --prompt-tokens 1,7,40 -ub 16 \
        --gen 4 --seqs 2 --json "$work/report.json" > "$work/log" 2>&1
}

# row MODEL: verifies one model and prints its line of the table.
row() {
    local name streamed outcome layers nodes reason
    name=$(basename "$1" .gguf)
    rm -f "$work/report.json"
    reason=
    if ! verify "$1" floor,2,all; then
        # Of what is not streamed, two resident runs are compared.
        reason=$(sed -n 's/.*nothing to verify: \([^;]*\);.*/\1/p' "$work/log")
        [[ -z $reason ]] || verify "$1" resident || true
    fi
    if [[ ! -s $work/report.json || $(field result) != identical ]]; then
        failed=$((failed + 1))
        echo "| $name | | **FAILED**: $(tail -n 1 "$work/log" | tr '|' '/' | sed "s#$dir/##g") |"
        return
    fi
    layers=$(field streamed_layers)
    nodes=$(field nodes_per_layer)
    outcome="identical, $(field logits) logits in $(field runs) runs"
    if [[ $layers -gt 0 ]]; then
        streamed_moe=$((streamed_moe + 1))
        streamed="$layers x $(field experts), $(form "$nodes")"
    elif [[ $name == *-moe ]]; then
        resident_moe=$((resident_moe + 1))
        streamed="**nothing streamed**"
    else
        dense=$((dense + 1))
        streamed="none"
    fi
    echo "| $name | $streamed | $outcome${reason:+ with everything resident; $reason} |"
}

for model in "${models[@]}"; do
    row "$model" >> "$work/rows"
    tail -n 1 "$work/rows" >&2
done

mkdir -p "$(dirname "$out")"
{
    echo "# Architectures"
    echo
    echo "Made by \`scripts/archs.sh\`: the small models that llama.cpp's \`test-llama-archs -o DIR\` writes, each fed the"
    echo "same tokens with all experts in plain CPU buffers and streamed: the floor, 2 and all slots a layer; lookahead"
    echo "0 and 1; prompts of 1, 7 and 40 tokens; 2 sequences; then 4 tokens one by one. Every logit is compared bit for bit."
    echo "Of models of which nothing is streamed, runs with everything resident are compared with each other."
    echo
    echo "*Experts streamed* is layers x experts a layer. A fused layer is one node; the others keep a node for each"
    echo "projection, on the same slots, because of scales, unusual activations or types with kernels of their own."
    echo
    echo "$streamed_moe models streamed, $resident_moe with experts in name of which nothing was streamed, $dense dense, $failed failed."
    echo
    echo "| model | experts streamed | outcome |"
    echo "|---|---|---|"
    cat "$work/rows"
} > "$out"
echo "archs: $streamed_moe streamed, $resident_moe MoE without streaming, $dense dense, $failed failed; table in $out"
[[ $failed -eq 0 ]]
