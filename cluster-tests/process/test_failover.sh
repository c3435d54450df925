#!/usr/bin/env bash
# Clients over failovers, on three processes: lines are sent with acks=all by an idempotent producer, and read along, while leaders of partitions and
# the leader of the quorum are killed one after the other, and then all at once. Every acknowledged line is there once and in order at the
# offset that was told, the reader has seen exactly these, and the three copies are the same.
#   test_failover.sh [DIRECTORY OF THE PROGRAMS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
name=test_failover
. "$root/cluster-tests/process/cluster_lib.sh"
export STELE_BOOTSTRAP=$peers
of() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/json" "$1"; } # of the last JSON
# holds EXPRESSION COMMAND...: before long the command is done, and the Python expression holds over its JSON `d`
holds() {
    local expression=$1 deadline=$((SECONDS + 60))
    shift
    until "$@" -o json >"$work/json" 2>"$work/errors" && [ "$(of "bool($expression)")" = True ]; do
        [ $SECONDS -lt $deadline ] || { cat "$work/json" "$work/errors"; die "$* -o json: not $expression"; }
    done
}
whole='all(sorted(p["isr"]) == [1, 2, 3] and p["leader"] for p in d["topics"][0]["partitions"])'
# So many more lines are acknowledged before long.
goes_on() { # LINES, WHEN
    local wanted=$(($(wc -l <"$work/report") + $1)) deadline=$((SECONDS + 60))
    until [ "$(wc -l <"$work/report")" -ge $wanted ]; do
        kill -0 "${started[0]}" 2>/dev/null || die "the producer ended: $2"
        [ $SECONDS -lt $deadline ] || die "nothing is acknowledged: $2"
    done
}

for k in 1 2 3; do begin $k; done
for k in 1 2 3; do ready $k; done
"$stele" topic create t -p 3 -r 3 || die "no topic"
holds "$whole" "$stele" topic describe t

: >"$work/report"
python3 -c 'import os, sys, time
count = 0
while not os.path.exists(sys.argv[1]):
    sys.stdout.write("".join("%d\n" % n for n in range(count, count + 100)))
    sys.stdout.flush()
    count += 100
    time.sleep(0.02) # a steady stream: a fast one would be at its end too soon' "$work/stop" |
    "$stele" produce t --report "$work/report" -o json >"$work/produced" 2>"$work/produce.errors" &
started+=($!)
"$stele" consume t -f '%p %o %s\n' >"$work/read" 2>"$work/consume.errors" &
started+=($!)
"$stele" consume t --rack r2 -f '%p %o %s\n' >"$work/read.rack" 2>"$work/consume.rack.errors" & # at node 2, while it is in sync
started+=($!)
goes_on 1000 "before anything was killed"

for partition in 0 1 2; do
    holds "$whole" "$stele" topic describe t
    leader=$(of "d['topics'][0]['partitions'][$partition]['leader']")
    end "$leader" KILL
    goes_on 1000 "without node $leader"
    holds "all(p['leader'] not in (None, $leader) for p in d['topics'][0]['partitions'])" "$stele" topic describe t
    begin "$leader"; ready "$leader"
done
holds "$whole" "$stele" topic describe t
holds 'd["leader"]' "$stele" quorum status
leader=$(of 'd["leader"]')
end "$leader" KILL
goes_on 1000 "without node $leader, which led the quorum"
begin "$leader"; ready "$leader"
holds "$whole" "$stele" topic describe t

for k in 1 2 3; do end $k KILL; done
for k in 1 2 3; do begin $k; done
for k in 1 2 3; do ready $k; done
goes_on 1000 "after all were killed"

touch "$work/stop"
wait "${started[0]}" || die "the producer gave $?"
started[0]=0
cp "$work/produced" "$work/json"
[ "$(of 'd["sent"] > 5000 and d["sent"] == d["acknowledged"] and d["failed"] == 0')" = True ] || { cat "$work/produced"; die "not all were acknowledged"; }
holds "$whole"' and all(p["lag"] == [0, 0, 0] and p["high_watermark"] == p["log_end_offset"] for p in d["topics"][0]["partitions"])' "$stele" topic describe t
total=$(of 'sum(p["high_watermark"] for p in d["topics"][0]["partitions"])')
deadline=$((SECONDS + 60))
for one in 1 2; do
    read=$work/read; [ $one = 1 ] || read=$work/read.rack
    until [ "$(wc -l <"$read")" -ge "$total" ]; do [ $SECONDS -lt $deadline ] || die "reader $one has $(wc -l <"$read") of $total"; done
    kill "${started[one]}"; wait "${started[one]}" 2>/dev/null || true
    started[one]=0
done
[ ! -s "$work/consume.errors" ] && [ ! -s "$work/consume.rack.errors" ] || die "a reader was sent back"
"$stele" consume t --to end -f '%p %o %s\n' >"$work/there" || die "reading all gave $?"
python3 - "$work/report" "$work/there" "$work/read" "$work/read.rack" "$total" <<'PYTHON' || die "what is there is not what was acknowledged"
import sys
report, there, read, racked = ([tuple(map(int, line.split())) for line in open(name)] for name in sys.argv[1:5])
told = {(partition, offset): number - 1 for number, partition, offset in report}
bad = []
if len(told) != len(report) or len({number for number, _, _ in report}) != len(report):
    bad.append("an acknowledgement came twice")
for name, records in ("there", there), ("read along", read), ("read along in a rack", racked):
    last = {}
    for partition, offset, value in records:
        if told.get((partition, offset)) != value:
            bad.append("%s: %d/%d is %d, not %s" % (name, partition, offset, value, told.get((partition, offset))))
        if partition in last and (offset != last[partition][0] + 1 or value <= last[partition][1]):
            bad.append("%s: %d/%d %d comes after %s" % (name, partition, offset, value, last[partition]))
        last[partition] = offset, value
    if len(records) != len(told) or len(records) != int(sys.argv[5]):
        bad.append("%s: %d records, %d acknowledged, %s in the partitions" % (name, len(records), len(told), sys.argv[5]))
print("\n".join(bad[:20]))
sys.exit(bool(bad))
PYTHON

for k in 1 2 3; do end $k TERM; done
for partition in 0 1 2; do
    for k in 2 3; do
        cmp "$work"/data1/t-$partition/00000000000000000000.log "$work"/data$k/t-$partition/00000000000000000000.log || die "the copies of t/$partition differ"
    done
done
no_races
echo "failover: $total lines over four killed nodes and one end of all"
