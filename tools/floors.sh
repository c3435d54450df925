#!/usr/bin/env bash
# Proves the floors of the house (docs/house.md):  floors.sh BUILD_DIR
#  1. A folder includes only its own floor and those below.
#  2. The core's archives use no socket, thread, clock, random, file or libevent symbol, and no allocator but ours.
#  3. They hold no writable globals.
#  4. Generated protobuf types appear only in proto's codec files.
set -uo pipefail
build=${1:?usage: floors.sh BUILD_DIR}
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bad=0
complain() { echo "floors: $*"; bad=1; }

declare -A below=(
    [base]="base" [proto]="base proto" [storage]="base proto storage" [replication]="base replication"
    [client]="base proto client" [node]="base proto storage replication node"
    [host]="base proto storage replication client node host"
    [cli]="base proto storage client node host cli")
for folder in "${!below[@]}"; do
    while IFS=: read -r file _ include; do
        [[ $file == */test/* ]] && continue # tests may look at the simulated disk and the test support
        target=$(sed -E 's/.*"([^"/]*)\/.*/\1/' <<<"$include")
        [[ " ${below[$folder]} " == *" $target "* ]] || complain "$file includes $include: not below $folder"
    done < <(grep -rnE '^#include "[a-z-]+/' "$folder" --include='*.[ch]' 2>/dev/null)
done

# What a pure archive may leave undefined: its own floors, the codecs' libraries, plain memory and text functions.
allowed='^(stele_.*|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|(__)?mem(cpy|set|cmp|move|chr|rchr)(_chk)?|str(len|nlen|cmp|ncmp|chr|rchr|cspn|spn|str|pbrk)|__?v?snprintf(_chk)?|v?snprintf|crc32_iscsi|(in|de)flate.*|compressBound|LZ4.*|ZSTD.*|snappy_.*|protobuf_c_.*|bcmp)$'
# The assertion handler prints and aborts: base/check.c alone.
handler='^(abort|fprintf|__fprintf_chk|stderr|fwrite)$'
core=()
for folder in base proto storage replication client node; do
    [ -f "$build/$folder/libstele_$folder.a" ] && core+=("$build/$folder/libstele_$folder.a")
done
[ ${#core[@]} -gt 3 ] || complain "no archives in $build: build first"
for archive in "${core[@]}"; do
    name=$(basename "$archive")
    while read -r symbol; do
        [[ $symbol =~ $allowed ]] && continue
        [[ $name == libstele_base.a && $symbol =~ $handler ]] && continue
        complain "$name uses $symbol"
    done < <(nm -u "$archive" 2>/dev/null | awk 'NF == 2 && $1 == "U" {print $2}' | sort -u)
    while read -r symbol; do
        complain "$name holds the writable global $symbol"
    done < <(nm "$archive" 2>/dev/null | awk 'NF == 3 && $2 ~ /^[bBDC]$/ {print $3}' | sort -u)
done

while read -r file; do
    case $file in proto/codec*.[ch] | proto/metadata_record.c) ;; *) complain "$file knows generated protobuf types" ;; esac
done < <(grep -rlE 'stele\.pb-c\.h|Stele__' --include='*.[ch]' base proto storage replication client node host cli 2>/dev/null)

[ $bad -eq 0 ] && echo "floors: the core is pure and the house stands"
exit $bad
