#!/usr/bin/env bash
# Runs those of llama.cpp's own tests that load models, with LES on, on models with
# experts: the ones that upstream makes for them, and the reference model in place of
# one that it downloads.
#
#   scripts/upstream-les.sh    one line for each test; the status says if all passed
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
bin=$build/bin
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
mkdir "$work/models" "$work/moe"
cd "$work" # some leave files behind

# check WHAT VARIABLES PROGRAM...: one test. All but two make contexts of models from
# files, which must be streamed.
check() {
    local what=$1 variables=$2 status=0 streamed
    shift 2
    # shellcheck disable=SC2086
    env LLAMA_ARG_LOG_VERBOSITY=5 $variables "$@" >"$work/log" 2>&1 </dev/null || status=$?
    streamed=$(grep -c 'LES: .* expert slots for' "$work/log" || true)
    printf '%-44s %-14s status %d, %d contexts streamed\n' "$what" "$variables" "$status" "$streamed"
    [ "$status" -eq 0 ] || { failed=1; tail -n 5 "$work/log" | sed 's/^/    /'; }
    case $what in
    test-generate-models | test-model-load-cancel) ;;
    *) [ "$streamed" -gt 0 ] || { failed=1; echo "    nothing was streamed"; } ;;
    esac
}

check test-generate-models LES=on "$bin/test-llama-archs" -o "$work/models/"
ln -s "$work"/models/*moe*.gguf "$work/moe"
for variables in LES=on LES_SLOTS=floor; do
    for model in deepseek4-moe kimi-k3-moe; do
        check "test-recurrent-state-rollback $model" "$variables" "$bin/test-recurrent-state-rollback" -m "$work/models/$model.gguf"
    done
    check test-save-load-state "$variables" "$bin/test-save-load-state" --models "$work/moe"
    check test-thread-safety "$variables" "$bin/test-thread-safety" -m "$root/models/les-ref.gguf" -ngl 99 \
        -p "The meaning of life is" -n 32 -c 256 -ub 32 -np 4 -t 2
    check test-state-restore-fragmented "$variables" "$bin/test-state-restore-fragmented" -m "$root/models/les-ref.gguf"
    check test-model-load-cancel "$variables" "$bin/test-model-load-cancel" "$root/models/les-ref.gguf"
    check test-autorelease "$variables" "$bin/test-autorelease" "$root/models/les-ref.gguf"
    check test-backend-sampler "$variables" "$bin/test-backend-sampler" --model "$root/models/les-ref.gguf"
done
exit "$failed"
