#!/usr/bin/env bash
# Writes the data directories of this version that every later one must open:  make.sh VERSION  (once, with the last commit of a version)
# In it: `clean`, a node's directory after a stop; `crashed`, the same after more records and a SIGKILL; `cluster-clean` and `cluster-crashed`, so of three
# nodes; `expected`, what consume and list print of each.
set -euo pipefail
version=${1:?usage: make.sh VERSION}
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=$root/build/bin
work=$(mktemp -d)
. "$root/cluster-tests/golden/golden_lib.sh"
trap 'stop -KILL; rm -rf "$work"' EXIT
expected() { # STATE
    local topic
    mkdir -p "$work/expected/$1"
    topics >"$work/expected/$1/topics"
    while read -r topic; do records "$topic" >"$work/expected/$1/$topic"; done <"$work/expected/$1/topics"
}

start "$work/clean"
for codec in none gzip snappy lz4 zstd; do
    "$bin/stele" topic create "codec-$codec" --config segment.bytes=20000
    seq 1 3000 | awk '{print $1 % 50 "\trecord " $1}' | "$bin/stele" produce "codec-$codec" -K $'\t' --compression $codec
done
"$bin/stele" topic create many -p 5 --config flush.before.ack=true
seq 1 500 | awk '{print $1 "\t" $1 * 7}' | "$bin/stele" produce many -K $'\t'
"$bin/stele" topic create empty -p 2 --config retention.ms=1000 --config message.timestamp.type=LogAppendTime
expected clean
stop -TERM
cp -a "$work/clean" "$work/crashed"
start "$work/crashed"
seq 1 4000 | "$bin/stele" produce codec-zstd --compression zstd
seq 1 4000 | "$bin/stele" produce many
expected crashed
stop -KILL

mkdir "$work/cluster-clean"
start_three "$work/cluster-clean"
"$bin/stele" topic create many -p 5 --config flush.before.ack=true --config segment.bytes=20000
"$bin/stele" topic create two -r 2 --config min.insync.replicas=1
"$bin/stele" topic create gone
"$bin/stele" topic delete gone
seq 1 3000 | awk '{print $1 "\t" $1 * 7}' | "$bin/stele" produce many -K $'\t' --compression lz4
seq 1 1000 | "$bin/stele" produce two
expected cluster-clean
stop -TERM
cp -a "$work/cluster-clean" "$work/cluster-crashed"
start_three "$work/cluster-crashed"
seq 1 4000 | "$bin/stele" produce many
expected cluster-crashed
stop -KILL

find "$work" -name .lock -delete
tar -C "$work" --zstd -cf "$root/cluster-tests/golden/v$version.tar.zst" clean crashed cluster-clean cluster-crashed expected
ls -l "$root/cluster-tests/golden/v$version.tar.zst"
