#!/usr/bin/env bash
# For every file that real Kafka wrote (samples.tar.zst, made by samples.sh), `stele dump` must print what kafka-dump-log printed, line by line, and
# `stele dump --verify` must find the directories sound. What Kafka's tool says wrongly or decodes beyond the log is taken out first:
# complaints about sound files, and the decoded keys and values of the internal topics and the metadata log.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/dump_text.sh"
stele=${STELE:-$here/../../build/bin/stele}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$work" --zstd -xf "$here/samples.tar.zst"
mkdir "$work/crashed"
tar -C "$work/crashed" --zstd -xf "$work/crashed.tar.zst"
cd "$work"

failed=0 files=0 lines=0
while read -r file; do
    files=$((files + 1))
    plain_dump <"expected/$(tr / _ <<<"$file").txt" >want
    "$stele" dump "$file" >got 2>errors || { echo "stele dump $file failed:"; cat errors; failed=1; }
    lines=$((lines + $(wc -l <want)))
    diff want got >difference || { echo "$file differs:"; head -5 difference; failed=1; }
    # An object a line, and every one of them parses.
    "$stele" dump -o json "$file" | python3 -c 'import json, sys; [json.loads(line) for line in sys.stdin]' ||
        { echo "$file: bad JSON"; failed=1; }
done < <(find clean diverged -type f \( -name '*.log' -o -name '*.index' -o -name '*.timeindex' -o -name '*.txnindex' -o -name '*.snapshot' \) | sort)
[ "$files" -gt 100 ] || { echo "only $files files"; failed=1; }
for dir in clean crashed diverged/n1-before diverged/n1-after diverged/n2 diverged/n3; do
    "$stele" dump --verify "$dir" >findings || { echo "$dir is not sound:"; grep '^damage' findings | head -20; failed=1; }
    tail -n 1 findings
done
# A check that cannot fail is none: one flipped byte under a checksum must be found.
cp -r clean/codec.none-0 flipped-0
printf '\377' | dd of=flipped-0/00000000000000000000.log bs=1 seek=100 conv=notrunc status=none
if "$stele" dump --verify flipped-0 >findings; then echo "a flipped byte was not found"; failed=1; fi
[ $failed -eq 0 ] && echo "$files files, $lines lines agree with kafka-dump-log"
exit $failed
