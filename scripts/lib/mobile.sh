# What the builds for phones have in common: options, prerequisites, commands that
# are printed, and printed only with --dry-run. Sourced; runs on bash 3.2.
# shellcheck shell=bash

dry=no
out=
lacking=0

# mobile_options NAME ARGUMENT...: the options that all of them have.
mobile_options() {
    name=$1
    shift
    while [ $# -gt 0 ]; do
        case $1 in
        --dry-run) dry=yes ;;
        --out)
            [ $# -gt 1 ] || usage_error "--out needs a directory"
            out=$2
            shift
            ;;
        -h | --help) usage 0 ;;
        *) usage_error "unknown option $1" ;;
        esac
        shift
    done
}

# usage prints the head of the script.
usage() {
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0"
    exit "$1"
}

usage_error() {
    echo "$name: $1" >&2
    exit 2
}

# lacks MESSAGE: one more thing that is missing.
lacks() {
    echo "$name: missing: $1" >&2
    lacking=$((lacking + 1))
}

# want_command COMMAND WHERE-FROM
want_command() {
    command -v "$1" >/dev/null 2>&1 || lacks "$1 ($2)"
}

# at_least WANT GOT compares dotted version numbers.
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t . -k 1,1n -k 2,2n -k 3,3n | head -n 1)" = "$1" ]
}

# want_cmake: for SDKs that bring none of their own.
want_cmake() {
    want_command cmake "3.18 or newer, from your system's packages or cmake.org"
    want_command ninja "your system's packages"
}

# want_tools: what every build needs on this machine.
want_tools() {
    local want got
    want_command git "your system's packages"
    want=$(sed -n 's/^go //p' "$root/go.mod")
    if command -v go >/dev/null 2>&1; then
        got=$(go env GOVERSION)
        at_least "$want" "${got#go}" || lacks "Go $want or newer, this is ${got#go}"
    else
        lacks "Go $want or newer (go.dev/dl)"
    fi
}

# end_of_prerequisites stops when something is missing; a dry run goes on.
end_of_prerequisites() {
    [ "$lacking" -gt 0 ] || return 0
    if [ "$dry" = yes ]; then
        echo "$name: $lacking missing; these are the commands all the same" >&2
        return 0
    fi
    echo "$name: $lacking missing, nothing was built" >&2
    exit 1
}

# run prints a command as it could be typed, and runs it unless this is a dry run.
run() {
    local word text=
    for word in "$@"; do
        case $word in
        '' | *[!A-Za-z0-9_./:=,+@%-]*) word=\'$(printf '%s' "$word" | sed "s/'/'\\\\''/g")\' ;;
        esac
        text=$text${text:+ }$word
    done
    printf '%s\n' "$text"
    [ "$dry" = yes ] || "$@"
}

# copy_tree FROM TO: TO becomes like FROM, whatever was there before.
copy_tree() {
    run rm -rf "$2"
    run mkdir -p "$(dirname "$2")"
    run cp -R "$1" "$2"
}

# What is built of llama.cpp for every phone: no programs, no tests, no download,
# nothing that depends on the machine that builds.
mobile_cmake=(
    -DCMAKE_BUILD_TYPE=Release
    -DGGML_NATIVE=OFF
    -DGGML_OPENMP=OFF
    -DLLAMA_BUILD_TOOLS=OFF
    -DLLAMA_BUILD_SERVER=OFF
    -DLLAMA_BUILD_TESTS=OFF
)
