#!/usr/bin/env bash
# Owns llama/llama.cpp: a git repository of its own, made of one clean commit of
# upstream (tag `les-base`) and one commit per file in patches/. This script is
# the only thing that creates it, and `verify` proves that nothing else is in it.
#
# Commits are built in a scratch index and checked out at the end, so a patch
# that fails leaves the working tree as it was, and a series that changed in one
# file touches only that file (the compiler cache and ninja stay warm).
#
# Runs on bash 3.2, the newest that macOS ships. There `set -e` is off inside
# $(...), so what runs in one says `|| exit` where going on would be wrong.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
dir=${LES_LLAMA_DIR:-$root/llama/llama.cpp}
lock=${LES_LLAMA_LOCK:-$root/llama/upstream.lock}
patches=${LES_PATCHES_DIR:-$root/patches}

# The budget of the series (patches/README.md says why there is one).
patches_max=6
lines_max=250

# Seconds until upstream counts as unreachable, and until a download of it does.
probe_seconds=15
download_seconds=600

# One identity and one date for every commit made here: ids of commits then
# depend on content alone, and patches carry nobody's name or clock.
export GIT_AUTHOR_NAME='The LES authors' GIT_COMMITTER_NAME='The LES authors'
export GIT_AUTHOR_EMAIL='authors@les.invalid' GIT_COMMITTER_EMAIL='authors@les.invalid'
export GIT_AUTHOR_DATE='1767225600 +0000' GIT_COMMITTER_DATE='1767225600 +0000'
export LC_ALL=C TZ=UTC GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0

# Called from a hook of the parent repository, git would inherit its index.
# shellcheck disable=SC2046
unset $(git rev-parse --local-env-vars)
# Without its own .git the directory must be an error, not the parent repository.
GIT_CEILING_DIRECTORIES=$(dirname "$dir")
export GIT_CEILING_DIRECTORIES

tmp=$(mktemp -d)
trap 'rm -rf "$tmp" "$dir.part"' EXIT

say() { printf 'llama.sh: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# pure runs git without the user's configuration: line-ending conversion, ignored
# run bits, signing, hooks or another diff format would all change what is built.
pure() {
    GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null git \
        -c core.autocrlf=false -c core.eol=lf -c core.fileMode=true \
        -c core.attributesFile=/dev/null -c core.excludesFile=/dev/null \
        -c core.hooksPath=/dev/null -c commit.gpgSign=false -c gc.auto=0 \
        -c safe.directory='*' -c advice.detachedHead=false "$@"
}
up() { pure -C "$dir" "$@"; }
scratch() { GIT_INDEX_FILE="$tmp/index" up "$@"; }

pinned() { awk -v key="$1" '$1 == key { print $2 }' "$lock"; }
entries() { awk '$1 == "entry" { print $2, $3 }' "$lock"; }

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi |
        cut -d ' ' -f 1
}

# limit runs a command for at most $1 seconds; macOS has perl but no timeout.
limit() {
    if command -v timeout >/dev/null; then timeout "$@"; else perl -e 'alarm shift; exec @ARGV' "$@"; fi
}

# shellcheck source=lib/llama-fetch.sh
. "$root/scripts/lib/llama-fetch.sh"

# --- the series --------------------------------------------------------------

need_base() {
    [ -e "$dir/.git" ] || die "$dir is not there: run scripts/llama.sh fetch"
    base_matches || die "les-base is not what the lock pins:"$'\n'"$(mismatches "$dir" 'les-base^{tree}')"
}

# list_patches prints the files of directory $1 in order, numbered without gaps.
list_patches() {
    local file name n=0
    for file in "$1"/*.patch; do
        [ -e "$file" ] || continue
        n=$((n + 1))
        name=$(basename "$file")
        [[ $name =~ ^[0-9]{4}-[A-Za-z0-9._-]+\.patch$ ]] || die "$name is not named NNNN-area-verb-noun.patch"
        [ "${name%%-*}" = "$(printf %04d "$n")" ] || die "$name should be number $(printf %04d "$n")"
        echo "$file"
    done
}

# commit_patch puts patch $1 on top of commit $2 and prints the new commit. The
# scratch index holds the tree of $2. `git apply` accepts no fuzz.
commit_patch() {
    local name subject tree
    name=$(basename "$1")
    up mailinfo --no-scissors --encoding=UTF-8 "$tmp/body" "$tmp/diff" <"$1" >"$tmp/head" ||
        die "$name is empty or not a mail-format patch"
    subject=$(sed -n 's/^Subject: //p' "$tmp/head")
    [ -n "$subject" ] || die "$name has no Subject line"
    scratch apply --cached --whitespace=nowarn "$tmp/diff" || die "patch $name does not apply"
    { printf '%s\n\n' "$subject"; cat "$tmp/body"; } | pure stripspace >"$tmp/message"
    tree=$(scratch write-tree) || exit
    up commit-tree "$tree" -p "$2" -F "$tmp/message"
}

# commit_series builds les-base plus the patches of directory $1 and prints the
# last commit.
commit_series() {
    local list file commit
    list=$(list_patches "$1") || exit
    commit=$(up rev-parse 'les-base^{commit}') || exit
    scratch read-tree les-base || exit
    while read -r file; do
        [ -n "$file" ] || continue
        commit=$(commit_patch "$file" "$commit") || exit
    done <<<"$list"
    echo "$commit"
}

# series_id changes with the base and with every byte and name of the patches.
series_id() {
    local list file
    list=$(list_patches "$patches") || exit
    {
        up rev-parse 'les-base^{commit}'
        while read -r file; do
            [ -n "$file" ] || continue
            echo "$(basename "$file") $(sha256 "$file")"
        done <<<"$list"
    } >"$tmp/series"
    sha256 "$tmp/series"
}

# The state file says which series HEAD was built from. Without it, HEAD counts
# as somebody's work unless it is the base itself.
state() { cat "$dir/.git/les-series" 2>/dev/null || true; }
save_state() { echo "$(series_id) $(up rev-parse HEAD)" >"$dir/.git/les-series"; }

# refuse_unsaved_work stops before work is lost that patches/ does not hold. $1
# is the commit that is to replace HEAD, if known.
refuse_unsaved_work() {
    local head saved
    [ -z "$(up status --porcelain --untracked-files=no)" ] ||
        die "$dir has uncommitted changes: commit and refresh, or undo them"
    head=$(up rev-parse HEAD)
    saved=$(state)
    [ "$head" = "$(up rev-parse 'les-base^{commit}')" ] && return
    [ "$head" = "${saved##* }" ] && return
    [ -n "$1" ] && up diff --quiet "$head" "$1" && return
    die "$dir has commits that patches/ does not: run scripts/llama.sh refresh, or reset to les-base"
}

cmd_apply() {
    local id saved
    need_base
    id=$(series_id)
    saved=$(state)
    if [ "$saved" = "$id $(up rev-parse HEAD)" ]; then
        say "series is applied already ($(up rev-list --count les-base..HEAD) patches)"
        return
    fi
    # Somebody is working on the series: what is there gets built, not undone.
    if [ "${saved%% *}" = "$id" ]; then
        say "note: $dir has commits that patches/ does not: refresh exports them"
        return
    fi
    apply_series
}

apply_series() {
    local commit
    commit=$(commit_series "$patches")
    refuse_unsaved_work "$commit"
    up reset -q --hard "$commit"
    save_state
    say "applied $(up rev-list --count les-base..HEAD) patches; HEAD $(up rev-parse --short=12 HEAD), tree $(up rev-parse 'HEAD^{tree}')"
}

# slug makes a file name of a subject: `ggml: link les sources` gives
# `ggml-link-les-sources`.
slug() { printf %s "$1" | tr '[:upper:]' '[:lower:]' | tr -cs 'a-z0-9' '-' | sed 's/^-*//; s/-*$//'; }

# export_commit writes commit $1 as patch number $2 into $3; commits are rebuilt
# first, so that only message and content reach the file.
export_commit() {
    local name
    name=$(printf '%04d-%s.patch' "$2" "$(slug "$(up log -1 --format=%s "$1")")")
    up format-patch -1 --stdout --zero-commit --no-signature --no-numbered --full-index -N \
        --no-renames --no-color --src-prefix=a/ --dst-prefix=b/ "$1" >"$3/$name"
}

cmd_refresh() {
    local id saved commit parent n=0 out=$tmp/out
    need_base
    [ -z "$(up status --porcelain)" ] || die "$dir has uncommitted changes: one commit is one patch, commit them first"
    [ -z "$(up rev-list --merges les-base..HEAD)" ] || die "the series has a merge: rebase it onto les-base"
    id=$(series_id)
    saved=$(state)
    [ "${saved%% *}" = "$id" ] || [ -z "$(list_patches "$patches")" ] ||
        die "patches/ changed since it was applied: run scripts/llama.sh apply first"
    mkdir -p "$out" "$patches"
    parent=$(up rev-parse 'les-base^{commit}')
    for commit in $(up rev-list --reverse les-base..HEAD); do
        n=$((n + 1))
        up log -1 --format=%B "$commit" | pure stripspace >"$tmp/message"
        parent=$(up commit-tree "$commit^{tree}" -p "$parent" -F "$tmp/message")
        export_commit "$parent" "$n" "$out"
    done
    # The files must give back the very commits they were made from.
    [ "$(commit_series "$out")" = "$parent" ] || die "the exported series does not give the same commits back"
    rm -f "$patches"/[0-9][0-9][0-9][0-9]-*.patch
    [ "$n" -eq 0 ] || cp "$out"/*.patch "$patches"/
    up reset -q --soft "$parent"
    save_state
    say "exported $n patches"
}

# strays prints files that git does not track in the directories built from,
# ignored ones too: a build that globs would compile them.
strays() {
    local names
    names=$(entries | cut -d ' ' -f 1)
    # shellcheck disable=SC2086
    up ls-files --others -x '__pycache__/' -x '*.pyc' -x '.DS_Store' -x '*~' -x '*.swp' -- $names
}

# worktree_tree hashes every tracked file from disk; nothing is taken from the
# index of the repository, which could hide a change.
worktree_tree() {
    mkdir -p "$tmp/objects"
    scratch read-tree "$1" || exit
    GIT_OBJECT_DIRECTORY="$tmp/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$dir/.git/objects" \
        scratch add -u . || exit
    GIT_OBJECT_DIRECTORY="$tmp/objects" GIT_ALTERNATE_OBJECT_DIRECTORIES="$dir/.git/objects" \
        scratch write-tree
}

cmd_verify() {
    local commit want got found
    need_base
    commit=$(commit_series "$patches")
    want=$(up rev-parse "$commit^{tree}")
    got=$(worktree_tree "$commit")
    echo "base tree        $(up rev-parse 'les-base^{tree}')"
    echo "base + patches   $want"
    echo "working tree     $got"
    if [ "$want" != "$got" ]; then
        GIT_ALTERNATE_OBJECT_DIRECTORIES="$tmp/objects" \
            up diff-tree -r --name-status --no-renames "$want" "$got" | head -n 20
        die "the working tree is not upstream + series"
    fi
    found=$(strays | head -n 20)
    [ -z "$found" ] || die "files that are in neither upstream nor the series:"$'\n'"$found"
    say "the working tree is exactly llama.cpp $(pinned tag) + $(up rev-list --count "les-base..$commit") patches"
}

# --- stats -------------------------------------------------------------------

# trailers_missing prints the trailers that patch $1 lacks.
trailers_missing() {
    local trailer
    for trailer in Why Why-not-api Kind Sunset Test; do
        sed '/^---$/,$d' "$1" | grep -q "^$trailer: *[^ ]" || printf ' %s' "$trailer"
    done
}

cmd_stats() {
    local list file added removed missing n=0 lines=0 failed=0
    list=$(list_patches "$patches")
    while read -r file; do
        [ -n "$file" ] || continue
        read -r added removed <<<"$(pure apply --numstat "$file" | awk '{ a += $1; r += $2 } END { print a + 0, r + 0 }')"
        printf '%-48s +%-4s -%s\n' "$(basename "$file")" "$added" "$removed"
        missing=$(trailers_missing "$file")
        [ -z "$missing" ] || { say "$(basename "$file") lacks:$missing"; failed=1; }
        n=$((n + 1))
        lines=$((lines + added + removed))
    done <<<"$list"
    echo "$n of $patches_max patches, $lines of $lines_max changed lines"
    if [ "$n" -gt "$patches_max" ] || [ "$lines" -gt "$lines_max" ]; then
        say "the series is over its budget"
        failed=1
    fi
    return "$failed"
}

cmd_help() {
    cat <<'USAGE'
Usage: scripts/llama.sh COMMAND

  fetch    make llama/llama.cpp from $LLAMA_CPP_SRC (a checkout), upstream's
           repository at the pinned tag, or the bundle in the pinned npm package;
           refuse it by entry name unless it is what llama/upstream.lock pins
  source   say where fetch would take it from: present, checkout, upstream, npm
  apply    commit patches/*.patch on top of les-base, no fuzz, stop at the first
           that fails; nothing to do when the series is applied and unchanged
  refresh  write the commits since les-base back to patches/
  verify   prove that the working tree is exactly upstream + series
  stats    count patches and changed lines against the budget
  help     this text

To change the series: commit in llama/llama.cpp (one commit is one patch, amend
or rebase at will), then refresh.

Environment: LLAMA_CPP_SRC, LES_LLAMA_DIR, LES_LLAMA_LOCK, LES_PATCHES_DIR.
USAGE
}

case "${1:-help}" in
fetch | apply | refresh | verify | stats) "cmd_$1" ;;
source) source_kind ;;
help | -h | --help) cmd_help ;;
*) cmd_help >&2; die "unknown command: $1" ;;
esac
