#!/usr/bin/env bash
# The process keeps to memory.limit while clients send large requests, break off in the middle and do not read their answers (flood.py); a client that
# behaves gets its work done beside them, and afterwards memory is free again.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
limit=67108864
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; rm -rf "$work"' EXIT
die() { echo "test_memory: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
mkfifo "$work/out"
"$bin/steled" --data "$work/data" --listen 127.0.0.1:0 --set memory.limit=$limit --set num.network.threads=2 --set http.listener=0 >"$work/out" 2>"$work/steled.log" &
node=$!
read -r word address <"$work/out" || die "no ready line"
export STELE_BOOTSTRAP=$address
"$bin/stele" topic create many -p 200 --config max.message.bytes=40000000
"$bin/stele" topic create good
seq 1 20000 >"$work/in"
python3 "$root/cluster-tests/process/flood.py" "$address" "$node" 4 >"$work/flood" 2>&1 &
flood=$!
"$bin/stele" produce good -l "$work/in" >"$work/said" 2>&1 || { cat "$work/said"; die "a client that behaves was not served beside them"; }
wait $flood || { cat "$work/flood"; die "the flood failed"; }
read -r connections resident <"$work/flood"
[ "$connections" -gt 50 ] || die "only $connections connections"
[ "$resident" -le $limit ] || die "resident memory reached $resident bytes of $limit"
grep -q "memory ran out" "$work/steled.log" || die "memory was never short: the flood is none"
"$bin/stele" consume good --from beginning --to end | cmp - "$work/in" || die "what was acknowledged is not there"
port=$(grep -oE 'http port at [0-9.]+:[0-9]+' "$work/steled.log" | grep -oE '[0-9]+$')
counted() { exec 3<>"/dev/tcp/127.0.0.1/$port"; printf 'GET /metrics HTTP/1.1\r\n\r\n' >&3; awk '$1 == "stele_memory_tag_bytes{tag=\"requests\"}" {print int($2)}' <&3; exec 3>&-; }
for i in $(seq 1 100); do [ "$(counted)" -gt 1000000 ] || break; done # the last connections are being closed
[ "$(counted)" -le 1000000 ] || die "$(counted) bytes of requests are held by nobody"
stop -TERM
[ "$status" = 0 ] || die "SIGTERM gave exit code $status"
echo "memory: done, $connections connections, at most $resident of $limit bytes"
