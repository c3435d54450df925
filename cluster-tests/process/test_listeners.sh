#!/usr/bin/env bash
# Several listeners: each is served and told as its settings say, open ones are warned of, wrong ones refused with a way out; limits of
# connections, in all and of an address, changed at run time; strangers of every kind are shut out by name.
#   test_listeners.sh [DIRECTORY OF THE PROGRAMS]     tools/test.sh runs it on the release and on the thread-sanitizer build.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
work=$(mktemp -d)
node=
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; rm -rf "$work"' EXIT
die() { echo "test_listeners: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; cat "$work"/race* 2>/dev/null || true; exit 1; }
export TSAN_OPTIONS="exitcode=66 log_path=$work/race"
start() {
    rm -f "$work/out"; mkfifo "$work/out"
    "$bin/steled" --data "$work/data" --set num.network.threads=2 "$@" >"$work/out" 2>>"$work/steled.log" &
    node=$!
    read -r word address others <"$work/out" || die "no ready line"
    [ "$word" = ready ] || die "said '$word'"
    export STELE_BOOTSTRAP=$address
}
client() { python3 "$root/cluster-tests/process/listeners.py" "$@"; }
refused() { # TEXT OPTION...
    local text=$1; shift
    if "$bin/steled" --check "$@" >"$work/said" 2>&1; then die "$* was taken"; fi
    grep -qF -- "$text" "$work/said" || { cat "$work/said"; die "$* does not say '$text'"; }
}
settle() { for i in $(seq 1 500); do [ "$(value stele_connections)" != 0 ] || return 0; done; die "connections stay"; } # those of before are gone
value() { exec 3<>"/dev/tcp/127.0.0.1/$http"; printf 'GET /metrics HTTP/1.1\r\n\r\n' >&3; awk -v name="$1" '$1 == name {print $2}' <&3; exec 3>&-; }

refused "write NAME://HOST:PORT" --listen 127.0.0.1
refused "the name A is there twice" --set listeners=A://:1,A://:2
refused "both on port 1" --set listeners=A://:1,B://:1
refused "nobody can connect to 0.0.0.0" --set advertised.listeners=0.0.0.0:1
refused "B is not among listeners (PLAINTEXT)" --set advertised.listeners=B://h:1
refused "the protocol SSL is not served yet" --set listeners=SSL://:1
refused "'B' is not among listeners" --set inter.broker.listener.name=B
refused "is not ADDRESS:COUNT" --set max.connections.per.ip.overrides=localhost:1
"$bin/steled" --check --set listeners=IN://:1,OUT://:2 --set listener.security.protocol.map=IN:PLAINTEXT --set inter.broker.listener.name=out || die "a right line was refused"

# three listeners, the nodes' own on every interface
start --set listeners="IN://127.0.0.1:0, OUT://127.0.0.1:0,ALL://:0" --set advertised.listeners=OUT://out.example:443 --set inter.broker.listener.name=ALL
read -r out all <<<"$others"
[[ $out == OUT://127.0.0.1:* && $all == ALL://0.0.0.0:* ]] || die "said '$address $others'"
all=${all##*:}
[ "$(client told "$address")" = "$address" ] || die "IN tells $(client told "$address")"
[ "$(client told "${out#OUT://}")" = out.example:443 ] || die "OUT tells $(client told "${out#OUT://}")"
[ "$(client told "127.0.0.1:$all")" = "$(uname -n):$all" ] || die "ALL tells $(client told "127.0.0.1:$all")"
if [ -e /proc/net/if_inet6 ] && grep -q '^0\{31\}1 ' /proc/net/if_inet6; then
    [ "$(client told "[::1]:$all")" = "$(uname -n):$all" ] || die "not served on IPv6"
fi
[ "$(grep -c 'is open beyond this machine' "$work/steled.log")" = 1 ] && grep -q 'listener ALL .* is open' "$work/steled.log" || die "warned of the wrong ones"
"$bin/stele" topic create t >/dev/null
for at in "${out#OUT://}" "127.0.0.1:$all"; do "$bin/stele" topic list -b "$at" | grep -q '^t ' || die "$at does not serve"; done
stop -TERM
[ "$status" = 0 ] || die "SIGTERM gave exit code $status"

# limits
start --set listeners=IN://127.0.0.1:0,PEER://127.0.0.1:0 --set inter.broker.listener.name=PEER --set http.listener=0 \
    --set max.connections.per.ip=6 --set max.connections.per.ip.overrides=127.0.0.3:2
http=$(grep -oE 'http port at 127\.0\.0\.1:[0-9]+' "$work/steled.log" | tail -n 1 | grep -oE '[0-9]+$')
peer=${others#PEER://}
[ "$(client crowd "$address" 127.0.0.2 10)" = 6 ] || die "max.connections.per.ip"
settle
[ "$(client crowd "$address" 127.0.0.3 10)" = 2 ] || die "max.connections.per.ip.overrides"
[ "$(value stele_connections_over_max_per_ip_total)" = 12 ] || die "counted $(value stele_connections_over_max_per_ip_total)"
grep -q 'connection from 127.0.0.2:[0-9]* closed at once: its address has max.connections.per.ip; 0 others' "$work/steled.log" || die "the log does not say it"
[ "$(grep -c 'closed at once' "$work/steled.log")" -le 4 ] || die "the log is flooded"
"$bin/stele" config set --node max.connections.per.ip=7 max.connections.per.ip.overrides= >/dev/null
settle
[ "$(client crowd "$address" 127.0.0.3 10)" = 7 ] || die "not changed at run time"
"$bin/stele" config set --node max.connections.per.ip.overrides=nonsense >"$work/said" 2>&1 && die "a wrong override was taken"
grep -q "is not ADDRESS:COUNT" "$work/said" || die "it does not say why"
"$bin/stele" config set --node max.connections.per.ip=100 max.connections=8 >/dev/null
settle
mkfifo "$work/hold"
client hold "$address" 127.0.0.2 10 <"$work/hold" >"$work/held" & held=$!
exec 4>"$work/hold"
until [ -s "$work/held" ]; do kill -0 $held || die "the holder ended"; done
[ "$(cat "$work/held")" = 8 ] || die "max.connections: $(cat "$work/held") are served"
[ "$(value stele_connections_over_max_total)" = 2 ] || die "counted $(value stele_connections_over_max_total)"
[ "$(client crowd "$address" 127.0.0.4 1)" = 0 ] || die "one too many"
[ "$(client crowd "$peer" 127.0.0.4 3)" = 3 ] || die "nodes are kept out"
exec 4>&-
wait $held
settle
[ "$(client crowd "$address" 127.0.0.2 10)" = 8 ] || die "who left makes no room"
settle

# strangers: each is shut out, and the log says what was met
stranger() { # TEXT BYTES
    exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
    (printf '%b' "$2" >&3) 2>/dev/null || true # it may be shut before the second line
    [ -z "$(timeout 10 cat <&3 2>/dev/null)" ] || die "$1 was answered"
    exec 3>&-
    grep -q "refused: $1" "$work/steled.log" || die "the log does not speak of $1"
}
stranger "an HTTP request" 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'
stranger "a TLS hello" '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'
stranger "a Kafka request" '\x00\x00\x00\x23\x00\x12\x00\x03\x00\x00\x00\x01\x00\x03cli\x00\x05apache'
stranger "an SSH hello" 'SSH-2.0-OpenSSH_9.2\r\n'
stranger "bytes that are no frame of this protocol" '\x00\x00\x00\x08\x7f\xff\xff\xff\x00\x00\x00\x00'
stranger "a frame larger than socket.request.max.bytes" '\xff\xff\xff\xff\xff\xff\xff\xff'
"$bin/stele" topic list | grep -q '^t ' || die "the node was harmed"
stop -TERM
[ "$status" = 0 ] || die "SIGTERM gave exit code $status"
if ls "$work"/race* >/dev/null 2>&1; then cat "$work"/race*; die "data races"; fi
echo "listeners: done"
