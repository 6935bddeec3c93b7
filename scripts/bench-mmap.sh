#!/usr/bin/env bash
# Streams a model in a memory cgroup and compares with llama.cpp's mmap in the
# same cgroup, arms interleaved, page cache dropped before each. Needs root.
#
#   scripts/bench-mmap.sh MODEL [OUT_DIR]
#
# Environment: LES_MEMORY (4G, limit and budget), LES_ROUNDS (5), LES_TOKENS (32,
# fed to the streamed arm), LES_MMAP_TOKENS (4, fed to the mmap arm, which takes
# seconds a token), LES_THREADS (2), STOCK_BENCH (an unpatched llama-bench;
# default the one built here, which runs unpatched code with LES off),
# LES_BUILD_DIR (build).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
model=${1:?usage: scripts/bench-mmap.sh MODEL [OUT_DIR]}
build=${LES_BUILD_DIR:-$root/build}
out=${2:-$build/bench-mmap}
memory=${LES_MEMORY:-4G}
rounds=${LES_ROUNDS:-5}
tokens=${LES_TOKENS:-32}
mmap_tokens=${LES_MMAP_TOKENS:-4}
threads=${LES_THREADS:-2}
stock=${STOCK_BENCH:-$build/bin/llama-bench}
lescli=$build/bin/lescli

die() { echo "bench-mmap.sh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "needs root, to limit memory and drop the page cache"
[ -x "$lescli" ] || die "$lescli is missing: run scripts/build.sh lescli llama-bench"
[ -x "$stock" ] || die "$stock is missing: run scripts/build.sh llama-bench"

if [ -d /sys/fs/cgroup/memory ]; then
    group=/sys/fs/cgroup/memory/les-bench limit=memory.limit_in_bytes peak=memory.max_usage_in_bytes
else
    group=/sys/fs/cgroup/les-bench limit=memory.max peak=memory.peak
fi
mkdir -p "$group" "$out"
trap 'rmdir "$group" 2>/dev/null || true' EXIT
numfmt --from=iec "$memory" >"$group/$limit" || die "cannot limit memory in $group"

# limited runs a command inside the group, after dropping the page cache.
limited() {
    sync
    echo 3 >/proc/sys/vm/drop_caches
    echo 0 2>/dev/null >"$group/$peak" || true
    bash -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$@"
}

rm -f "$out"/*.json "$out/mmap.txt" "$out/les.txt"
for ((round = 1; round <= rounds; round++)); do
    limited "$stock" -m "$model" -lm mmap -t "$threads" -p 0 -n "$mmap_tokens" -r 1 -o json \
        >"$out/mmap-$round.json" 2>"$out/mmap-$round.err"
    tps=$(sed -n 's/.*"avg_ts": *\([0-9.]*\).*/\1/p' "$out/mmap-$round.json")
    echo "$tps" >>"$out/mmap.txt"
    limited "$lescli" bench -m "$model" -t "$threads" -p 0 -n "$tokens" -r 1 --les-budget "$memory" \
        --json "$out/les-$round.json" >/dev/null 2>"$out/les-$round.err"
    les=$(sed -n '/"decode_tps"/,/}/s/.*"median": *\([0-9.]*\).*/\1/p' "$out/les-$round.json" | head -n 1)
    echo "$les" >>"$out/les.txt"
    printf 'round %d: mmap %s tok/s, streamed %s tok/s, peak of the cgroup %s bytes\n' \
        "$round" "$tps" "$les" "$(cat "$group/$peak")"
done

# stat prints median, least and most of a column of numbers.
stat() { sort -n "$1" | awk '{ v[NR] = $1 } END { m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2; printf "%.3f %.3f %.3f", m, v[1], v[NR] }'; }
read -r mmap_median mmap_least mmap_most <<<"$(stat "$out/mmap.txt")"
read -r les_median les_least les_most <<<"$(stat "$out/les.txt")"
{
    echo "memory limit $memory, $threads threads, $rounds rounds, arms interleaved, page cache dropped before each"
    echo "mmap      median $mmap_median tok/s (least $mmap_least, most $mmap_most), $mmap_tokens fed tokens"
    echo "streamed  median $les_median tok/s (least $les_least, most $les_most), $tokens fed tokens"
    awk -v a="$les_median" -v b="$mmap_median" 'BEGIN { printf "ratio     %.1f\n", a / b }'
    sed -n 's/^  "\(plan_bytes\|peak_rss_bytes\|hit_rate\|join_rate\|miss_rate\|recall\|precision\|bytes_per_token\|stall_ms_per_token\)": \(.*\)/\1 \2/p' \
        "$out/les-$rounds.json" | sed 's/,$//'
} | tee "$out/summary.txt"
