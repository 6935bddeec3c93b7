#!/usr/bin/env bash
# Tests scripts/llama.sh on a toy upstream of four files, so that it runs in
# seconds and without a network. Each case names the rule it checks.
set -uo pipefail

script=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/llama.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
passed=0
failed=0

# A user's configuration that breaks naive scripts, and no identity at all.
export HOME=$work/home XDG_CONFIG_HOME=$work/home GIT_CONFIG_NOSYSTEM=1
mkdir "$HOME"
cat >"$HOME/.gitconfig" <<'CONFIG'
[core]
    autocrlf = true
    fileMode = false
[commit]
    gpgSign = true
[diff]
    noprefix = true
[format]
    signature = mine
    numbered = true
[apply]
    whitespace = fix
CONFIG
unset LLAMA_CPP_SRC GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL

# The repository under test lies inside a parent repository, as it does here.
git init -q "$work/parent"
export LES_LLAMA_DIR=$work/parent/llama/llama.cpp
export LES_LLAMA_LOCK=$work/upstream.lock
export LES_PATCHES_DIR=$work/parent/patches
toy=$work/toy
mkdir -p "$LES_PATCHES_DIR"

sha256() {
    if command -v sha256sum >/dev/null; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}
plain() {
    GIT_CONFIG_GLOBAL=/dev/null git -c user.name=toy -c user.email=toy@toy.invalid \
        -c core.autocrlf=false "$@"
}
in_llama() { GIT_CONFIG_GLOBAL=/dev/null git -C "$LES_LLAMA_DIR" "$@"; }

# ok runs llama.sh and expects success; refused expects failure and a message.
ok() {
    local rule=$1
    shift
    if out=$("$script" "$@" 2>&1); then pass; else fail "$rule" "$out"; fi
}
refused() {
    local rule=$1 message=$2
    shift 2
    if out=$("$script" "$@" 2>&1); then fail "$rule: accepted" "$out"
    elif [[ $out != *"$message"* ]]; then fail "$rule: no \"$message\"" "$out"
    else pass
    fi
}
same() { if [ "$2" = "$3" ]; then pass; else fail "$1" "$2 is not $3"; fi; }
pass() { passed=$((passed + 1)); }
fail() {
    failed=$((failed + 1))
    printf 'FAIL %s\n%s\n' "$1" "$2" | sed '2,$s/^/    /'
}

make_toy() {
    git init -q "$toy"
    mkdir "$toy/src" "$toy/ggml"
    printf 'one\r\ntwo\r\n' >"$toy/src/crlf.txt"
    printf 'line %s\n' 1 2 3 4 5 6 7 8 9 >"$toy/src/a.c"
    printf '#!/bin/sh\n' >"$toy/ggml/run.sh"
    chmod +x "$toy/ggml/run.sh"
    echo readme >"$toy/README"
    echo '*.o' >"$toy/.gitignore"
    plain -C "$toy" add -A
    plain -C "$toy" update-index --chmod=+x ggml/run.sh
    plain -C "$toy" commit -q -m toy
    plain -C "$toy" tag v1
}

make_lock() {
    cat >"$LES_LLAMA_LOCK" <<LOCK
# toy
tag v1
upstream $1
npm toy@1
bundle llama/toy.bundle
bundle-sha256 $(sha256 "$work/toy.bundle" 2>/dev/null | cut -d ' ' -f 1)
tree $(plain -C "$toy" rev-parse 'v1^{tree}')
entry src $(plain -C "$toy" rev-parse v1:src)
entry ggml $(plain -C "$toy" rev-parse v1:ggml)
LOCK
}

# change commits, with subject $1, the addition of $3 after line $2 of src/a.c.
change() {
    sed "${2}a\\
$3
" "$LES_LLAMA_DIR/src/a.c" >"$work/a.c" && cp "$work/a.c" "$LES_LLAMA_DIR/src/a.c"
    in_llama commit -q -a -m "$1" -m "$(printf 'Why: w\nWhy-not-api: n\nKind: hook\nSunset: s\nTest: t')"
}

test_fetch() {
    refused "apply needs a fetch" "is not there" apply
    LLAMA_CPP_SRC=$toy ok "fetch from a checkout" fetch
    same "lines end as upstream's do" "$(sha256 <"$LES_LLAMA_DIR/src/crlf.txt")" "$(sha256 <"$toy/src/crlf.txt")"
    [ -x "$LES_LLAMA_DIR/ggml/run.sh" ]
    same "run bits are kept" $? 0
    first=$(in_llama rev-parse les-base)
    LLAMA_CPP_SRC=/nowhere ok "fetch is idempotent" fetch
    rm -rf "$LES_LLAMA_DIR"
    ok "fetch from upstream's repository" fetch
    same "every source gives the same commit" "$(in_llama rev-parse les-base)" "$first"
    rm -rf "$LES_LLAMA_DIR"
    mkdir "$work/plain" && plain -C "$toy" archive v1 | tar -x -C "$work/plain"
    LLAMA_CPP_SRC=$work/plain ok "fetch from a plain directory" fetch
    same "a plain directory gives the same commit" "$(in_llama rev-parse les-base)" "$first"
    ok "an empty series applies" apply
    ok "an empty series verifies" verify
}

# A stand-in for npm packs the bundle, as `npm pack` would.
test_fetch_npm() {
    mkdir -p "$work/bin" "$work/package/llama"
    cp "$work/toy.bundle" "$work/package/llama/toy.bundle"
    printf '#!/bin/sh\ntar -czf toy-1.tgz -C "%s" package\n' "$work" >"$work/bin/npm"
    chmod +x "$work/bin/npm"
    rm -rf "$LES_LLAMA_DIR"
    make_lock "$work/unreachable"
    PATH=$work/bin:$PATH ok "fetch from the npm package" fetch
    same "the bundle gives the same commit" "$(in_llama rev-parse les-base)" "$first"
    rm -rf "$LES_LLAMA_DIR"
    printf x >>"$work/package/llama/toy.bundle"
    PATH=$work/bin:$PATH refused "a changed bundle is refused" "sha256" fetch
    make_lock "$toy"
}

test_tampering() {
    git clone -q "$toy" "$work/tampered"
    plain -C "$work/tampered" tag -d v1 >/dev/null
    echo evil >>"$work/tampered/src/a.c"
    plain -C "$work/tampered" commit -q -a -m evil
    LLAMA_CPP_SRC=$work/tampered refused "a tampered tree is refused by name" "entry src is" fetch
    [ ! -e "$LES_LLAMA_DIR" ] && [ ! -e "$LES_LLAMA_DIR.part" ]
    same "a refused source leaves nothing behind" $? 0
    plain -C "$work/tampered" reset -q --hard HEAD~1
    echo more >>"$work/tampered/README"
    plain -C "$work/tampered" commit -q -a -m docs
    LLAMA_CPP_SRC=$work/tampered ok "a change outside the pinned entries is accepted" fetch
    rm -rf "$LES_LLAMA_DIR"
    ok "fetch" fetch
    ok "apply" apply
}

test_refresh_and_apply() {
    change "src: add first call" 2 "first"
    ok "apply leaves new commits alone" apply
    case $out in *"refresh exports them"*) pass ;; *) fail "apply says so" "$out" ;; esac
    ok "refresh exports" refresh
    change "src: add second call" 7 "second"
    ok "refresh exports two" refresh
    same "patches are named after their subject" "$(ls "$LES_PATCHES_DIR")" \
        "$(printf '0001-src-add-first-call.patch\n0002-src-add-second-call.patch')"
    cp -r "$LES_PATCHES_DIR" "$work/kept"
    head=$(in_llama rev-parse HEAD)
    rm -rf "$LES_LLAMA_DIR"
    ok "fetch" fetch
    ok "apply" apply
    same "apply gives the commits refresh left" "$(in_llama rev-parse HEAD)" "$head"
    ok "refresh" refresh
    same "refresh round-trips" "$(diff -r "$work/kept" "$LES_PATCHES_DIR" && echo same)" same
    ok "apply again" apply
    same "apply is idempotent" "${out#*already}" " (2 patches)"
    ok "the applied series verifies" verify
    rm "$LES_PATCHES_DIR/0002-"*
    change "src: add third call" 8 "third"
    refused "apply does not drop commits" "run scripts/llama.sh refresh" apply
    in_llama reset -q --hard HEAD~1
    refused "verify sees a missing patch" "not upstream + series" verify
    refused "refresh does not undo a change of patches/" "apply first" refresh
    ok "apply follows patches/" apply
    same "a dropped patch is gone" "$(grep -c second "$LES_LLAMA_DIR/src/a.c")" 0
    cp "$work/kept/"* "$LES_PATCHES_DIR"
    ok "apply the series again" apply
}

test_bad_patches() {
    sed 's/^ line 2$/ line two/' "$LES_PATCHES_DIR/0001-src-add-first-call.patch" \
        >"$LES_PATCHES_DIR/0003-src-add-bad-call.patch"
    refused "a patch that does not apply stops with its name" "patch 0003-src-add-bad-call.patch does not apply" apply
    same "a failed apply changes nothing" "$(in_llama rev-parse HEAD) $(in_llama status --porcelain)" "$head "
    mv "$LES_PATCHES_DIR/0003-src-add-bad-call.patch" "$LES_PATCHES_DIR/0004-src-add-bad-call.patch"
    refused "a gap in the numbers is refused" "should be number 0003" apply
    rm "$LES_PATCHES_DIR/0004-"*
    ok "apply" apply
}

test_verify() {
    echo "line 10" >>"$LES_LLAMA_DIR/src/a.c"
    refused "verify catches a modified file" "not upstream + series" verify
    case $out in *src/a.c*) pass ;; *) fail "verify names the file" "$out" ;; esac
    in_llama update-index --assume-unchanged src/a.c
    refused "verify does not trust the index" "not upstream + series" verify
    in_llama update-index --no-assume-unchanged src/a.c
    refused "refresh wants commits" "uncommitted" refresh
    in_llama checkout -q src/a.c
    chmod -x "$LES_LLAMA_DIR/ggml/run.sh"
    refused "verify catches a lost run bit" "not upstream + series" verify
    chmod +x "$LES_LLAMA_DIR/ggml/run.sh"
    touch "$LES_LLAMA_DIR/src/extra.c"
    refused "verify catches an untracked file" "src/extra.c" verify
    mv "$LES_LLAMA_DIR/src/extra.c" "$LES_LLAMA_DIR/src/extra.o"
    refused "verify catches an ignored file" "src/extra.o" verify
    rm "$LES_LLAMA_DIR/src/extra.o"
    in_llama tag -f les-base HEAD >/dev/null
    refused "verify catches a moved base" "entry src is" verify
    in_llama tag -f les-base "$first" >/dev/null
    ok "verify" verify
    mv "$LES_LLAMA_DIR/.git" "$work/dotgit"
    refused "without its own repository the parent is not used" "is not there" verify
    refused "fetch does not overwrite a foreign directory" "not made by this script" fetch
    mv "$work/dotgit" "$LES_LLAMA_DIR/.git"
}

test_stats() {
    ok "stats" stats
    case $out in *"2 of 6 patches, 2 of 250 changed lines"*) pass ;; *) fail "stats counts" "$out" ;; esac
    change "src: add long call" 3 "$(printf 'x\\\n%.0s' {1..260})"
    ok "refresh" refresh
    refused "too many lines are over the budget" "over its budget" stats
    in_llama reset -q --hard HEAD~1
    for n in 3 4 5 6 7; do change "src: add call number $n" 1 "call $n"; done
    ok "refresh" refresh
    refused "too many patches are over the budget" "over its budget" stats
    in_llama reset -q --hard HEAD~5
    in_llama commit -q --amend -m "src: say nothing"
    ok "refresh" refresh
    refused "a patch without trailers is named" "0002-src-say-nothing.patch lacks: Why Why-not-api Kind Sunset Test" stats
    refused "an unknown command is refused" "unknown command" frobnicate
}

make_toy
git -C "$toy" bundle create -q "$work/toy.bundle" HEAD
make_lock "$toy"
test_fetch
test_fetch_npm
test_tampering
test_refresh_and_apply
test_bad_patches
test_verify
test_stats
echo "test-llama-sh: $passed passed, $failed failed"
[ "$failed" -eq 0 ]
