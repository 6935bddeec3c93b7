#!/usr/bin/env bash
# Measures drafting: no drafts, the controller, and fixed widths, in turn, so that
# what changes on the machine changes for all. Each sample is a run of lescli with
# greedy sampling, so arms write the same text unless steps of another width round
# a close choice the other way. One line of JSON a sample.
#
#   scripts/bench-draft.sh OUT MODEL [FLAGS OF DRAFTING...]
#
# Environment: ROUNDS (3), TOKENS (256), SLOTS (off floor 2 8), WIDTHS (1 2 3 5 7).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$1 model=$2
shift 2
report=$(mktemp)
log=$(mktemp)
trap 'rm -f "$report" "$log"' EXIT

sample() {
    local slots=$1 arm=$2
    shift 2
    local les=(--les-slots "$slots")
    [ "$slots" != off ] || les=(--les off)
    "$root/build/bin/lescli" run -m "$model" -p "$(head -c 700 "$root/models/heldout.txt")" -n "${TOKENS:-256}" -c 1024 --temp 0 \
        "${les[@]}" "$@" --json "$report" >/dev/null 2>"$log" || { cat "$log" >&2; return 1; }
    python3 - "$report" "$slots" "$arm" >>"$out" <<'PY'
import json, sys
r = json.load(open(sys.argv[1]))
print(json.dumps({"slots": sys.argv[2], "arm": sys.argv[3], "decode_tps": r["decode_tps"], "draft": r["draft"]}))
PY
}

for _ in $(seq "${ROUNDS:-3}"); do
    for slots in ${SLOTS:-off floor 2 8}; do
        sample "$slots" none
        sample "$slots" controller "$@"
        for width in ${WIDTHS:-1 2 3 5 7}; do
            sample "$slots" "$width" "$@" --draft-width "$width"
        done
    done
done
