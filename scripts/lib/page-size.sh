#!/usr/bin/env bash
# Says which shared libraries of a folder cannot be loaded where pages are of a size,
# and fails if one is found. Each loaded segment must begin at a multiple of it.
#
#   page-size.sh READELF BYTES FOLDER
set -euo pipefail

readelf=$1 bytes=$2 folder=$3
status=0
for file in "$folder"/*.so; do
    segments=$("$readelf" -lW "$file" | awk '$1 == "LOAD" { print $NF }')
    [ -n "$segments" ] || { echo "page-size: $file: no segment is loaded" >&2; status=1; }
    for alignment in $segments; do
        [ $((alignment % bytes)) -eq 0 ] || { echo "page-size: $file: a segment at a multiple of $((alignment)) bytes only, pages are of $bytes" >&2; status=1; break; }
    done
done
exit "$status"
