#!/usr/bin/env bash
# Unpacks the samples, those of the crash too, for tests to read:  unpack.sh OUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: unpack.sh OUT}
[ "$out/unpacked" -nt "$here/samples.tar.zst" ] && exit 0
rm -rf "$out"
mkdir -p "$out/crashed"
tar -C "$out" --zstd -xf "$here/samples.tar.zst"
tar -C "$out/crashed" --zstd -xf "$out/crashed.tar.zst"
chmod -R u+rw "$out"
touch "$out/unpacked"
