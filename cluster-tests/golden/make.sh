#!/usr/bin/env bash
# Writes the data directory of this version that every later one must open:  make.sh VERSION  (once, with the last commit of a version)
# In it: `clean`, a node's directory after a stop; `crashed`, the same after more records and a SIGKILL; `expected`, what consume and list print of each.
set -euo pipefail
version=${1:?usage: make.sh VERSION}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; node=; fi; }
trap 'stop -KILL; rm -rf "$work"' EXIT
start() {
    rm -f "$work/out"; mkfifo "$work/out"
    "$bin/steled" --data "$1" --listen 127.0.0.1:0 >"$work/out" 2>>"$work/steled.log" &
    node=$!
    read -r _ STELE_BOOTSTRAP <"$work/out"
    export STELE_BOOTSTRAP
}
expected() { # DIRECTORY
    mkdir -p "$1"
    "$bin/stele" topic list -o json | python3 -c 'import json, sys; [print(t["name"]) for t in json.load(sys.stdin)["topics"]]' | sort >"$1/topics"
    while read -r topic; do
        "$bin/stele" consume "$topic" --from beginning --to end -f '%p %o %T %k %S %s %h\n' | sort -n -k1,1 -k2,2 >"$1/$topic"
    done <"$1/topics"
}

start "$work/clean"
for codec in none gzip snappy lz4 zstd; do
    "$bin/stele" topic create "codec-$codec" --config segment.bytes=20000
    seq 1 3000 | awk '{print $1 % 50 "\trecord " $1}' | "$bin/stele" produce "codec-$codec" -K $'\t' --compression $codec
done
"$bin/stele" topic create many -p 5 --config flush.before.ack=true
seq 1 500 | awk '{print $1 "\t" $1 * 7}' | "$bin/stele" produce many -K $'\t'
"$bin/stele" topic create empty -p 2 --config retention.ms=1000 --config message.timestamp.type=LogAppendTime
expected "$work/expected/clean"
stop -TERM
cp -a "$work/clean" "$work/crashed"
start "$work/crashed"
seq 1 4000 | "$bin/stele" produce codec-zstd --compression zstd
seq 1 4000 | "$bin/stele" produce many
expected "$work/expected/crashed"
stop -KILL
rm -f "$work"/*/.lock
tar -C "$work" --zstd -cf "$root/cluster-tests/golden/v$version.tar.zst" clean crashed expected
ls -l "$root/cluster-tests/golden/v$version.tar.zst"
