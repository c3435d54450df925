#!/usr/bin/env bash
# The main job on real input: the package list of this machine (`apt-cache dumpavail`, tens of megabytes) goes into a topic of a cluster of three nodes
# as keyed records, with acks=all and an idempotent producer, while the leader is killed twice and then all three at once, with SIGKILL. It comes out
# again byte for byte, and so it lies in every replica.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${1:-$PWD/build/bin}
work=$(mktemp -d)
nodes=(0 0 0 0) producer=0 outs=()
trap 'for one in "${nodes[@]}" "$producer"; do [ "$one" = 0 ] || kill -KILL "$one" 2>/dev/null || true; done; rm -rf "$work"' EXIT
die() { echo "demo: $*" >&2; tail -n 5 "$work"/log* "$work/produce.log" >&2 2>/dev/null || true; exit 1; }
seconds() { awk -v from="$1" -v to="$(date +%s.%N)" 'BEGIN {printf "%.3f", to - from}'; }
rate() { awk -v bytes="$1" -v s="$2" 'BEGIN {printf "%.1f MB in %.2f s, %.0f MB/s", bytes / 1e6, s, bytes / 1e6 / s}'; }

ports=($(python3 -c 'import socket
held = [socket.socket() for _ in range(3)]
for one in held: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in held])'))
export STELE_BOOTSTRAP=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}

start() { # nodes... : waits until all of them serve
    local k fd
    for k in "$@"; do
        rm -f "$work/out$k"; mkfifo "$work/out$k"
        exec {fd}<>"$work/out$k"
        outs[k]=$fd
        "$bin/steled" --data "$work/data$k" --listen "127.0.0.1:${ports[k - 1]}" --peers "$STELE_BOOTSTRAP" --node "$k" >"$work/out$k" 2>>"$work/log$k" 9>&- &
        nodes[k]=$!
    done
    for k in "$@"; do
        read -r -t 60 word _ <&"${outs[k]}" && [ "$word" = ready ] || die "node $k does not serve"
    done
}
# Before long three nodes may lead.
await_nodes() {
    local deadline=$((SECONDS + 60))
    until [ "$("$bin/stele" cluster status -o json 2>/dev/null | grep -c '"state":.*"well"')" = 3 ]; do
        [ $SECONDS -lt $deadline ] || { "$bin/stele" cluster status >&2 || true; die "not all nodes are well"; }
    done
}
# of EXPRESSION: of the only partition of the topic, as Python's `p`.
of() { "$bin/stele" topic describe packages -o json 2>/dev/null | python3 -c 'import json, sys; p = json.load(sys.stdin)["topics"][0]["partitions"][0]; print(eval(sys.argv[1]))' "$1" 2>/dev/null; }
# Before long all three replicas are in sync, and one of them leads.
await_in_sync() {
    local deadline=$((SECONDS + 60))
    until [ "$(of 'len(p["isr"]) == 3 and p["leader"] in p["isr"]')" = True ]; do
        [ $SECONDS -lt $deadline ] || { "$bin/stele" topic describe packages >&2 || true; die "not all replicas are in sync"; }
    done
}
# feed FROM TO NODE...: the next lines go to the producer; when a quarter of them is acknowledged the nodes are killed, all at once. Nodes that were all
# are started at once, one when the others have taken the rest. Returns when every line is acknowledged, and says how long none was.
feed() {
    local from=$1 to=$2 pids=() watcher k
    shift 2
    for k in "$@"; do pids+=("${nodes[k]}"); done
    python3 - "$work/in" "$work/report" "$from" "$to" "${pids[@]}" >"$work/gap" <<'PY' &
import os, signal, sys, threading, time
lines, report, first, last, pids = open(sys.argv[1], "rb"), open(sys.argv[2], "rb"), int(sys.argv[3]), int(sys.argv[4]), [int(pid) for pid in sys.argv[5:]]
part = b"".join(lines.readlines()[first:last])
def feed():
    with os.fdopen(os.dup(9), "wb") as producer:
        producer.write(part)
threading.Thread(target=feed, daemon=True).start()
acked, at, gap, killed_at = report.read().count(b"\n"), time.monotonic(), 0, None
while acked < last:
    more = report.read().count(b"\n")
    now = time.monotonic()
    if more > 0:
        if killed_at is not None:
            gap = max(gap, now - at)
        acked, at = acked + more, now
    if killed_at is None and (acked >= first + (last - first) // 4 or now - at > 60):
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        killed_at = acked
    if now - at > 60:
        sys.exit("nothing was acknowledged for a minute, %d records of %d are" % (acked, last))
    time.sleep(0.0002)
print("killed at %d, %d acknowledged behind it; none for %.0f ms" % (killed_at, acked - killed_at, gap * 1000))
PY
    watcher=$!
    for k in "$@"; do wait "${nodes[k]}" 2>/dev/null || true; nodes[k]=0; done
    [ $# -lt 3 ] || start "$@"
    wait "$watcher" || die "the load does not go on"
    [ $# -eq 3 ] || start "$@"
    await_in_sync
    echo "   $(cat "$work/gap")"
}

echo "1. The input: apt-cache dumpavail, one record a package, the package's name as key"
apt-cache dumpavail >"$work/avail" 2>/dev/null || true
[ "$(stat -c %s "$work/avail")" -gt 10000000 ] || { apt-get update -qq >/dev/null 2>&1 || true; apt-cache dumpavail >"$work/avail"; }
# A stanza becomes one line "name TAB stanza", with its line ends as the unit separator so that it stays one record.
awk 'BEGIN {RS = ""; FS = "\n"} {name = $1; sub(/^Package: /, "", name); gsub(/\n/, "\037"); print name "\t" $0}' "$work/avail" >"$work/in"
bytes=$(stat -c %s "$work/in") records=$(wc -l <"$work/in")
echo "   $records records, $bytes bytes"

echo "2. Three nodes with one list of peers, and nothing beside them"
from=$(date +%s.%N); start 1 2 3; await_nodes; echo "   formed and served after $(seconds "$from") s: $STELE_BOOTSTRAP"
"$bin/stele" topic create packages
await_in_sync
echo "   topic packages: $(of '"replicas on %s, led by node %d" % (p["replicas"], p["leader"])'), min.insync.replicas=$("$bin/stele" config describe --topic packages -o json | grep -A3 '"min.insync.replicas"' | grep '"value"' | grep -oE '[0-9]+')"

echo "3. In, with acks=all"
mkfifo "$work/lines"
exec 9<>"$work/lines"
: >"$work/report"
"$bin/stele" produce packages -K $'\t' -l "$work/lines" --report "$work/report" 9>&- >"$work/produced" 2>"$work/produce.log" &
producer=$!
leader=$(of 'p["leader"]')
echo "   SIGKILL for node $leader, which leads:"
feed 0 $((records / 3)) "$leader"
leader=$(of 'p["leader"]')
echo "   SIGKILL for node $leader, which leads now:"
feed $((records / 3)) $((records * 2 / 3)) "$leader"
echo "   SIGKILL for all three at once:"
feed $((records * 2 / 3)) "$records" 1 2 3
exec 9>&- # the end of the input
wait "$producer" || die "the producer does not end well"
producer=0
[ "$(wc -l <"$work/report")" = "$records" ] || die "not each record was acknowledged once"

echo "4. Out"
from=$(date +%s.%N); "$bin/stele" consume packages --from beginning --to end -f '%k\t%s\n' >"$work/back"; echo "   consumed: $(rate "$bytes" "$(seconds "$from")")"
cmp "$work/in" "$work/back" || die "what was consumed is not what was produced"
awk 'BEGIN {FS = "\t"} {sub(/^[^\t]*\t/, ""); gsub(/\037/, "\n"); print $0 "\n"}' "$work/back" >"$work/avail.back"
cmp "$work/avail" "$work/avail.back"
echo "   byte for byte the same: $(sha256sum <"$work/back" | cut -c1-16)"

echo "5. Each replica, as it lies on its disk"
for k in 1 2 3; do kill -TERM "${nodes[k]}"; done
for k in 1 2 3; do wait "${nodes[k]}" || die "node $k does not stop cleanly"; nodes[k]=0; done
for k in 1 2 3; do
    "$bin/stele" dump --verify "$work/data$k" >"$work/verified" || { cat "$work/verified" >&2; die "node $k: damage"; }
    for segment in "$work/data$k"/packages-0/*.log; do
        "$bin/stele" dump --print-records "$segment"
    done | LC_ALL=C awk '/^\| offset: / {
        rest = substr($0, index($0, " key: ") + 6); at = index(rest, " payload: ")
        print substr(rest, 1, at - 1) "\t" substr(rest, at + 10)}' >"$work/replica"
    cmp "$work/in" "$work/replica" || die "the replica of node $k is not what was produced"
    echo "   node $k: $records records, each once and in order"
done
echo "demo: done"
