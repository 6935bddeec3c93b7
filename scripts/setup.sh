#!/usr/bin/env bash
# Installs what a build needs and the machine lacks: with apt on Debian and its
# kin (as root, or by a sudo that does not ask), with Homebrew on macOS. Where it
# cannot install, it names every missing piece and fails. It asks nothing.
#
#   scripts/setup.sh           what a build needs
#   scripts/setup.sh --test    also what only the tests need
#   scripts/setup.sh --check   install nothing, only report
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
cmake_min=3.18

log=$(mktemp)
trap 'rm -f "$log"' EXIT

tests=no
install=yes
for argument in "$@"; do
    case $argument in
    --test) tests=yes ;;
    --check) install=no ;;
    *) echo "setup.sh: unknown option $argument" >&2; exit 2 ;;
    esac
done

have() { command -v "$1" >/dev/null 2>&1; }
# at_least WANT GOT compares dotted version numbers.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -t . -k 1,1n -k 2,2n -k 3,3n | head -n 1)" = "$1" ]; }

# missing prints the commands that are wanted and not there, one a line.
missing() {
    local tool
    for tool in git cmake ninja ccache; do have "$tool" || echo "$tool"; done
    have cc && have c++ || echo compiler
    if have cmake && ! at_least "$cmake_min" "$(cmake --version | sed -n 's/^cmake version //p')"; then
        echo cmake
    fi
    [ "$tests" = no ] || have shellcheck || echo shellcheck
    # puts faults into reads, in the tests of lescli
    [ "$tests" = no ] || [ "$(uname)" != Linux ] || have strace || echo strace
    # runs a client of llama-server
    [ "$tests" = no ] || python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    # npm is a heavy package: only where the source cannot come from elsewhere.
    [ "$source" != npm ] || have npm || echo npm
}

# Where llama.cpp would come from; asking costs a time-out where upstream is not
# reachable, so it is asked once. Needs git.
source=unknown
ask_source() {
    if [ "$source" = unknown ] && have git; then source=$(scripts/llama.sh source); fi
}

# package names the package of a package manager ($1) that brings a command ($2).
package() {
    case $1-$2 in
    apt-ninja) echo ninja-build ;;
    apt-compiler) echo gcc g++ libc6-dev ;;
    brew-npm) echo node ;;
    brew-python3-venv) echo python3 ;;
    *) echo "$2" ;;
    esac
}

packages() {
    local tool
    for tool in $2; do package "$1" "$tool"; done | tr '\n' ' '
}

install_apt() {
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        have sudo && sudo -n true 2>/dev/null || return 1
        sudo=(sudo -n)
    fi
    # shellcheck disable=SC2046
    {
        ${sudo[@]+"${sudo[@]}"} apt-get update -qq &&
            ${sudo[@]+"${sudo[@]}"} env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends $(packages apt "$1")
    } >"$log" 2>&1 || { tail -n 20 "$log" >&2; return 1; }
}

# Apple's compiler cannot be installed without a dialogue.
install_brew() {
    case " $1 " in *" compiler "*) return 1 ;; esac
    # shellcheck disable=SC2046
    brew install --quiet $(packages brew "$1")
}

advice() {
    echo "setup.sh: missing: $1" >&2
    if have apt-get; then echo "  as root: apt-get install $(packages apt "$1")" >&2
    elif [ "$(uname -s)" = Darwin ]; then echo "  xcode-select --install; brew install $(packages brew "$1")" >&2
    else echo "  install them with your system's package manager (cmake $cmake_min or newer)" >&2
    fi
}

check_go() {
    local want got
    want=$(sed -n 's/^go //p' go.mod)
    if ! have go; then
        echo "setup.sh: Go is missing: install Go $want or newer" >&2
        return 1
    fi
    got=$(go env GOVERSION)
    at_least "$want" "${got#go}" || { echo "setup.sh: Go $want or newer is needed, this is ${got#go}" >&2; return 1; }
}

# Git comes first: whether npm is needed shows only once git can ask upstream.
for round in 1 2; do
    ask_source
    lacking=$(missing | sort -u | tr '\n' ' ')
    lacking=${lacking% }
    [ -n "$lacking" ] || break
    [ "$install" = yes ] || break
    echo "setup.sh: installing $lacking (round $round)"
    if have apt-get; then install_apt "$lacking" || break
    elif have brew; then install_brew "$lacking" || break
    else break
    fi
done

ask_source
lacking=$(missing | sort -u | tr '\n' ' ')
status=0
[ -z "$lacking" ] || { advice "${lacking% }"; status=1; }
check_go || status=1
[ "$status" -ne 0 ] || echo "setup.sh: everything needed is there"
exit "$status"
