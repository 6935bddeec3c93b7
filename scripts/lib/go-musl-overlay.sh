#!/usr/bin/env bash
# Writes changed copies of two files of Go's runtime into a folder, and beside them
# overlay.json, which `go build -overlay` takes: with them a library that Go builds for
# linux/arm64 can be opened by dlopen in a process of musl, and so of HarmonyOS.
#
#   go-musl-overlay.sh FOLDER
#
# Go keeps the goroutine of a thread in thread-local storage of a kind that has room
# only for what is there when the process starts, and musl refuses libraries that want
# more. The architecture leaves the two words above the thread pointer to the C library,
# and musl, unlike glibc, uses neither: the second one is taken. And Go takes arguments
# and environment from what the C library gives to a library's constructor, which is
# nothing here: there are none, and the auxiliary vector is read from /proc.
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p;}' "$0" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
runtime=$(go env GOROOT)/src/runtime

# change FILE SCRIPT: a copy with the sed script's changes, of which each must find its line.
change() {
    local wanted
    sed "$2" "$runtime/$1" >"$folder/$1"
    wanted=$(grep -c '^s' <<<"$2")
    [ "$(diff "$runtime/$1" "$folder/$1" | grep -c '^[0-9]')" -eq "$wanted" ] ||
        { echo "go-musl-overlay: $runtime/$1 is not as in Go 1.25 to 1.27: $(go version)" >&2; exit 1; }
}

# shellcheck disable=SC2016 # of Go's assembler
change tls_arm64.s 's|^GLOBL runtime·tls_g+0(SB), TLSBSS, \$8$|DATA runtime·tls_g+0(SB)/8, $8\
GLOBL runtime·tls_g+0(SB), NOPTR, $8|'
change runtime1.go 's|^\tsysargs(c, v)$|\tif islibrary \|\| isarchive {\
\t\targc, argv = 0, \&noArgs[0]\
\t}\
\tsysargs(argc, argv)|
s|^func args(c int32, v \*\*byte) {$|// The ends of no arguments, no environment and no auxiliary vector.\
var noArgs [4]*byte\
\
&|'
printf '{"Replace":{"%s":"%s","%s":"%s"}}\n' "$runtime/tls_arm64.s" "$folder/tls_arm64.s" \
    "$runtime/runtime1.go" "$folder/runtime1.go" >"$folder/overlay.json"
