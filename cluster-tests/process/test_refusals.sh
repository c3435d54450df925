#!/usr/bin/env bash
# Nodes that do not belong to a cluster of three processes are refused by name, in the log of both sides, and nothing is changed by them: one of another
# cluster, one with an older copy of its disk, one that speaks nonsense.
#   test_refusals.sh [DIRECTORY OF THE PROGRAMS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
name=test_refusals
. "$root/cluster-tests/process/cluster_lib.sh"

begin_all() { local k; for k in 1 2 3; do begin $k; done; for k in 1 2 3; do ready $k; done; }
end_all() { local k; for k in 1 2 3; do [ "${nodes[k]}" = 0 ] || end $k TERM; done; }
says() { # TEXT FILE...: one of them, before long
    local text=$1 deadline=$((SECONDS + 60)); shift
    until cat "$@" | grep -q -- "$text"; do [ $SECONDS -lt $deadline ] || die "nobody said '$text': $*"; sleep 0.05; done
}
export STELE_BOOTSTRAP=$peers

# Another cluster had the same addresses; its third disk comes back.
begin_all
"$stele" topic create theirs >/dev/null
end_all
mv "$work/data3" "$work/theirs"; rm -rf "$work"/data[123] "$work"/log[123]
begin_all
"$stele" topic create ours -p 3 >/dev/null
seq 1 1000 | "$stele" produce ours
end 3 TERM
mv "$work/data3" "$work/ours3"; mv "$work/theirs" "$work/data3"
begin 3
says "node 3, which came as one of cluster" "$work"/log1 "$work"/log2
says "which came as one of cluster" "$work"/log3
end 3 KILL
rm -rf "$work/theirs"; mv "$work/data3" "$work/theirs"; mv "$work/ours3" "$work/data3"
cp -a "$work/data3" "$work/older3"
begin 3; ready 3

# Something else answers at its address: garbage, then what is no answer.
end 3 TERM
python3 - "${ports[2]}" <<'END' &
import random, socket, sys
door = socket.create_server(("127.0.0.1", int(sys.argv[1])))
random.seed(1)
for _ in range(1000):
    guest, _ = door.accept()
    try:
        guest.recv(4096)
        guest.sendall(random.choice([random.randbytes(200), b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64), b"\x00\x00\x00\x08\x00\x00\x00\x04\xff\xff\xff\xff"]))
        guest.close()
    except OSError:
        pass
END
liar=$!; started+=("$liar")
seq 1001 2000 | "$stele" produce ours
says "127.0.0.1:${ports[2]}" "$work"/log1 "$work"/log2
kill "$liar"; wait "$liar" 2>/dev/null || true
begin 3; ready 3

# The copy of its disk that was made before is put back.
"$stele" topic create later >/dev/null
end 3 TERM
mv "$work/data3" "$work/newest3"; mv "$work/older3" "$work/data3"
begin 3
wait "${nodes[3]}" && die "an older disk was taken"
nodes[3]=0
says "node 3, which came as a voter of the metadata quorum, is refused" "$work"/log1 "$work"/log2
says "an older copy was put back" "$work"/log3
seq 2001 3000 | "$stele" produce ours
rm -rf "$work/data3"; mv "$work/newest3" "$work/data3"
begin 3; ready 3

[ "$("$stele" topic list -o json | python3 -c 'import json, sys; print(*sorted(t["name"] for t in json.load(sys.stdin)["topics"]))')" = "later ours" ] || die "not the topics that were made"
"$stele" consume ours --from beginning --to end | sort -n | cmp - <(seq 1 3000) || die "not the records that were written"
end_all
for k in 1 2 3; do "$stele" dump --verify "$work/data$k" >"$work/said" || { cat "$work/said"; die "the disk of node $k"; }; done
echo "refusals: of another cluster, without sense, with an older disk"
