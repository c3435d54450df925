#!/usr/bin/env bash
# The manual pages are those that the programs print, and roff finds nothing wrong with them where it is installed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
for program in stele steled; do
    "$root/build/bin/$program" --manual | cmp - "$root/docs/man/$program.1" || { echo "write it anew: build/bin/$program --manual >docs/man/$program.1"; exit 1; }
    if command -v groff >/dev/null; then
        said=$(groff -man -ww -z "$root/docs/man/$program.1" 2>&1)
        [ -z "$said" ] || { echo "$said"; exit 1; }
    fi
done
