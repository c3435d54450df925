#!/usr/bin/env bash
# Every data directory that an earlier version wrote is opened, read, written to, stopped and verified by this one.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; rm -rf "$work"' EXIT
die() { echo "test_golden: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
count=0
for golden in "$root"/cluster-tests/golden/v*.tar.zst; do
    version=$(basename "$golden" .tar.zst)
    mkdir "$work/$version"
    tar -C "$work/$version" --zstd -xf "$golden"
    for state in clean crashed; do
        "$bin/stele" dump --verify "$work/$version/$state" >"$work/said" || { cat "$work/said"; die "$version/$state: verify"; }
        rm -f "$work/out"; mkfifo "$work/out"
        "$bin/steled" --data "$work/$version/$state" --listen 127.0.0.1:0 >"$work/out" 2>>"$work/steled.log" &
        node=$!
        read -r word STELE_BOOTSTRAP <"$work/out" || die "$version/$state: no ready line"
        export STELE_BOOTSTRAP
        "$bin/stele" topic list -o json | python3 -c 'import json, sys; [print(t["name"]) for t in json.load(sys.stdin)["topics"]]' | sort | cmp - "$work/$version/expected/$state/topics" || die "$version/$state: topics"
        while read -r topic; do
            "$bin/stele" consume "$topic" --from beginning --to end -f '%p %o %T %k %S %s %h\n' | sort -n -k1,1 -k2,2 |
                cmp - "$work/$version/expected/$state/$topic" || die "$version/$state: $topic"
        done <"$work/$version/expected/$state/topics"
        echo more | "$bin/stele" produce many || die "$version/$state: produce"
        stop -TERM
        [ "$status" = 0 ] || die "$version/$state: stop gave $status"
        "$bin/stele" dump --verify "$work/$version/$state" >"$work/said" || { cat "$work/said"; die "$version/$state: verify after"; }
        count=$((count + 1))
    done
done
[ "$count" -gt 0 ] || die "there is no golden directory"
echo "golden: $count directories of earlier versions"
