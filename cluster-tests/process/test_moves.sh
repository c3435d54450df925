#!/usr/bin/env bash
# Replicas move between the log directories of their node while programs write with acks=all: in a cluster of three processes with two directories
# each, on the leader and on a follower, there and back, and through a SIGKILL in the middle. Afterwards every record is there once and in order,
# and the logs of all replicas are equal byte for byte.
#   test_moves.sh [DIRECTORY OF THE PROGRAMS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
name=test_moves
. "$root/cluster-tests/process/cluster_lib.sh"
export STELE_BOOTSTRAP=$peers
gives() { # CODE TEXT COMMAND...: that exit code, and the text on standard error ("" for none)
    local code=$1 text=$2 status=0
    shift 2
    "$@" >"$work/said" 2>"$work/errors" || status=$?
    [ "$status" = "$code" ] || { cat "$work/said" "$work/errors"; die "$* gave $status, not $code"; }
    [ -z "$text" ] || grep -qF -- "$text" "$work/errors" || { cat "$work/errors"; die "$* does not say '$text'"; }
}
of() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/json" "$1"; } # of the last JSON
json() { "${@:2}" -o json >"$work/json" || die "$* gave $?"; [ "$(of "bool($1)")" = True ] || { cat "$work/json"; die "$*: not $1"; }; }
holds() { # EXPRESSION COMMAND...: before long
    local deadline=$((SECONDS + 60))
    until "${@:2}" -o json >"$work/json" 2>"$work/errors" && [ "$(of "bool($1)")" = True ]; do
        [ $SECONDS -lt $deadline ] || { cat "$work/json" "$work/errors"; die "$*"; }
    done
}

start() { begin_with "$1" --node "$1" --set "log.dirs=$work/a$1,$work/b$1" --set log.segment.bytes=400000 --set log.segment.delete.delay.ms=500; }
for k in 1 2 3; do start $k; done
for k in 1 2 3; do ready $k; done
gives 0 "" "$stele" topic create t -p 1 -r 3 --config min.insync.replicas=2
holds 'len(d["topics"][0]["partitions"][0]["isr"]) == 3' "$stele" topic describe t
leader=$(of 'd["topics"][0]["partitions"][0]["leader"]')
follower=$((leader % 3 + 1)) third=$((6 - leader - leader % 3 - 1))
where() { json "True" "$stele" node replicas -n "$1" t; of 'next(r["directory"] for r in d["replicas"] if r["state"] != "copy")'; }
other() { local now; now=$(where "$1"); [ "$now" = "$work/a$1" ] && echo "$work/b$1" || echo "$work/a$1"; }

# What is wrong is said.
gives 2 "want TOPIC/PARTITION=DIRECTORY" "$stele" partition move t=/x
gives 2 "TOPIC/PARTITION=DIRECTORY is missing" "$stele" partition move --wait
gives 1 "none of log.dirs" "$stele" partition move -n 1 t/0=/nowhere
gives 3 "" "$stele" partition move -n 1 "u/0=$work/a1"
gives 3 "there is no node 9" "$stele" partition move -n 9 "t/0=$work/a1"

# Moves under load: each writer sends its numbers in order.
writer() { local i; for ((i = 0; i < 40; i++)); do seq -f "$1 %g" $((i * 250 + 1)) $((i * 250 + 250)); sleep 0.05; done | "$stele" produce t -p 0 >"$work/$1.said" 2>"$work/$1.errors"; }
for w in x y; do writer $w & started+=($!); done
for k in "$leader" "$follower" "$leader" "$third"; do
    to=$(other "$k")
    json 'd["partitions"][0]["begun"]' "$stele" partition move --wait -n "$k" "t/0=$to"
    [ "$(where "$k")" = "$to" ] || die "node $k has it in $(where "$k"), not in $to"
done
wait "${started[@]}" || die "a writer failed"
started=()

# A slow copy is shown, ends on request, and goes on after a SIGKILL.
gives 0 "" "$stele" config set --cluster replica.alter.log.dirs.io.max.bytes.per.second=20000
holds '[s for s in d["settings"] if s["value"] == "20000"]' "$stele" -b "127.0.0.1:${ports[$((follower - 1))]}" config describe
from=$(where "$follower") to=$(other "$follower")
gives 0 "" "$stele" partition move -n "$follower" "t/0=$to"
holds 'len(d["moves"]) == 1 and d["moves"][0]["lag"] >= 0 and d["moves"][0]["to"] == "'"$to"'"' "$stele" partition move
holds '[r["state"] for r in d["replicas"]] == ["online", "copy"]' "$stele" node replicas -n "$follower" t
gives 0 "" "$stele" partition move "t/0=$from" -n "$follower"
holds 'd["moves"] == []' "$stele" partition move
ls -d "$to"/t-0.*-future >/dev/null 2>&1 && die "a copy is left in $to"
gives 0 "" "$stele" partition move -n "$follower" "t/0=$to"
holds 'len(d["moves"]) == 1 and d["moves"][0]["copied_bytes"] > 0' "$stele" partition move -n "$follower"
end "$follower" KILL
ls -d "$to"/t-0.*-future >/dev/null || die "no copy in $to"
gives 0 "" "$stele" config set --cluster replica.alter.log.dirs.io.max.bytes.per.second=100000000
start "$follower"; ready "$follower"
holds '[(r["state"], r["directory"]) for r in d["replicas"]] == [("online", "'"$to"'")]' "$stele" node replicas -n "$follower" t
holds 'len(d["topics"][0]["partitions"][0]["isr"]) == 3' "$stele" topic describe t

# All records, once and in order; equal logs.
"$stele" consume t -p 0 --to end >"$work/read" || die "consume"
for w in x y; do grep "^$w " "$work/read" | cut -d' ' -f2 | cmp - <(seq 1 10000) || die "what writer $w sent"; done
for k in 1 2 3; do end $k TERM; done
for k in 1 2 3; do
    [ "$(find "$work/a$k" "$work/b$k" -maxdepth 1 \( -name t-0 -o -name "t-0.*-future" \) | wc -l)" = 1 ] || { ls "$work/a$k" "$work/b$k"; die "node $k has it in two places"; }
    cat "$(find "$work/a$k" "$work/b$k" -maxdepth 1 -name t-0)"/*.log >"$work/bytes$k"
done
cmp "$work/bytes1" "$work/bytes2" && cmp "$work/bytes2" "$work/bytes3" || die "the logs differ"
[ "$(stat -c %s "$work/bytes1")" -gt 100000 ] || die "the logs are too small to say anything"
echo "test_moves: well"
