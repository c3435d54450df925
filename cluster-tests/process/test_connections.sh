#!/usr/bin/env bash
# Ten thousand idle connections: their memory is bounded, clients at work beside them are served, and all of them are closed when their time is
# over. So is one that sends byte by byte, and one that never reads harms nobody (idle.py).     test_connections.sh [DIRECTORY OF THE PROGRAMS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
count=10000
work=$(mktemp -d)
node= idle=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; [ -z "$idle" ] || kill "$idle" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_connections: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; exit 1; }
ulimit -Sn "$(ulimit -Hn)"
[ "$(ulimit -n)" = unlimited ] || [ "$(ulimit -n)" -gt $((count + 1000)) ] || { echo "needs $((count + 1000)) descriptors, $(ulimit -n) may be had"; exit 77; }
mkfifo "$work/out" "$work/go"
"$bin/steled" --data "$work/data" --listen 127.0.0.1:0 --set num.network.threads=2 --set http.listener=0 --set connections.max.idle.ms=5000 >"$work/out" 2>"$work/steled.log" &
node=$!
read -r word address <"$work/out" || die "no ready line"
export STELE_BOOTSTRAP=$address
http=$(grep -oE 'http port at 127\.0\.0\.1:[0-9]+' "$work/steled.log" | grep -oE '[0-9]+$')
value() { exec 3<>"/dev/tcp/127.0.0.1/$http"; printf 'GET /metrics HTTP/1.1\r\n\r\n' >&3; awk -v name="$1" '$1 == name {print int($2)}' <&3; exec 3>&-; }
"$bin/stele" topic create t >/dev/null
seq 1 20000 >"$work/in"
"$bin/stele" produce t -l "$work/in" && "$bin/stele" consume t --from beginning --to end >/dev/null # what they need once is there
state_before=$(value 'stele_memory_tag_bytes{tag="connections"}')
python3 "$root/cluster-tests/process/idle.py" "$address" "$node" $count <"$work/go" >"$work/idle" 2>&1 & idle=$!
exec 4>"$work/go"
until grep -q '^open' "$work/idle"; do kill -0 $idle 2>/dev/null || { cat "$work/idle"; wait $idle || exit $?; die "it ended"; }; sleep 0.05; done
state=$((($(value 'stele_memory_tag_bytes{tag="connections"}') - state_before) / count))
open=$(value stele_connections)
"$bin/stele" topic create u >/dev/null || die "no topic is made beside them"
for i in 1 2 3; do "$bin/stele" produce u -l "$work/in" || die "no produce beside them"; done
"$bin/stele" consume u --from beginning --to end >"$work/back" || die "no consume beside them"
[ "$(wc -l <"$work/back")" = 60000 ] || die "$(wc -l <"$work/back") records of 60000 came back"
[ "$open" -ge $count ] || die "only $open were open"
resident=$(awk '/^open/ {print int($2 * 1024 / '$count')}' "$work/idle")
[ "$state" -le 2048 ] || die "$state bytes of state an idle connection"
[ "$resident" -le 4096 ] || die "$resident bytes of resident memory an idle connection"
echo >&4
wait $idle || { cat "$work/idle"; die "it failed"; }
idle=
grep -q "^closed $count\$" "$work/idle" || { cat "$work/idle"; die "they are not all closed"; }
"$bin/stele" consume t --from beginning --to end | cmp - "$work/in" || die "afterwards"
left=$(value 'stele_memory_tag_bytes{tag="connections"}')
[ $((left - state_before)) -le 100000 ] || die "$left bytes of connections are held by nobody"
stop -TERM
[ "$status" = 0 ] || die "SIGTERM gave exit code $status"
echo "connections: done, $open open, $state bytes of state and $resident bytes of resident memory each"
