#!/usr/bin/env bash
# Three processes with one list of peers and nothing beside them form a cluster: one id, settings that are changed on one are there on all, also
# after its leader was killed and after all were; wrong lists are refused by name.
#   test_cluster.sh [DIRECTORY OF THE PROGRAMS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
name=test_cluster
. "$root/cluster-tests/process/cluster_lib.sh"

# The second one finds its place by itself: several entries are addresses of this machine, one of them has the port that it serves.
begin() { # K
    if [ "$1" = 2 ]; then begin_with 2; else begin_with "$1" --node "$1"; fi
}
on() { local k=$1; shift; STELE_BOOTSTRAP=127.0.0.1:${ports[$((k - 1))]} "$bin/stele" "$@"; }

# The one that the logs name last leads, unless it has just changed.
change() { # VALUE
    local deadline=$((SECONDS + 60))
    while [ $SECONDS -lt $deadline ]; do
        leader=$(sed -n 's/.*__cluster_metadata: node \([0-9]\) leads in epoch \([0-9]*\).*/\2 \1/p' "$work"/log* | sort -n | tail -n 1 | cut -d' ' -f2)
        [ "${nodes[$leader]}" != 0 ] && on "$leader" config set --cluster "log.retention.ms=$1" >"$work/said" 2>&1 && return
    done
    cat "$work/said"
    die "no node took a change"
}
# It is on each of the nodes before long.
holds() { # VALUE, on nodes...
    local value=$1 k deadline=$((SECONDS + 60)); shift
    for k in "$@"; do
        until on "$k" config describe -o json 2>/dev/null | grep -q "\"$value\""; do
            [ $SECONDS -lt $deadline ] || die "node $k does not know of $value"
        done
    done
}

# One that waits for the others can be stopped, before it has met any and when it knows them.
waits() { begin 1; until grep -q "$1" "$work/log1"; do sleep 0.05; done; sleep 0.2; end 1 TERM; }
waits "waits for its peers"
for k in 1 2 3; do begin $k; done
for k in 1 2 3; do ready $k; done
for k in 1 2 3; do end $k TERM; done
: >"$work/log1"
waits "__cluster_metadata-0: opened"

for k in 1 2 3; do begin $k; done
for k in 1 2 3; do ready $k; done
[ "$(for k in 1 2 3; do on $k node status -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["cluster_id"])'; done | sort -u | wc -l)" = 1 ] || die "not one cluster"
change 1111111
holds 1111111 1 2 3

# The leader is killed: another one leads; it comes back and follows.
killed=$leader
end "$killed" KILL
others=($(for k in 1 2 3; do [ $k = "$killed" ] || echo $k; done))
change 2222222
holds 2222222 "${others[@]}"
begin "$killed"; ready "$killed"
holds 2222222 1 2 3

# All are killed at once.
for k in 1 2 3; do end $k KILL; done
for k in 1 2 3; do begin $k; done
for k in 1 2 3; do ready $k; done
holds 2222222 1 2 3
change 3333333
holds 3333333 1 2 3

# Another list and another number are refused, and nothing is changed by it.
end 3 TERM
refused() { # TEXT OPTION...
    local text=$1; shift
    timeout 20 "$bin/steled" --data "$work/data3" --listen "127.0.0.1:${ports[2]}" "$@" >/dev/null 2>"$work/said" && die "$* was taken"
    grep -q "$text" "$work/said" || { cat "$work/said"; die "why $* is refused"; }
}
refused "belongs to node 3" --peers "$peers" --node 2
refused "is not the list given" --peers "127.0.0.1:1,127.0.0.1:2,127.0.0.1:${ports[2]}" --node 3
begin 3; ready 3
holds 3333333 3
for k in 1 2 3; do end $k TERM; done
echo "cluster: three nodes, one of them killed, all of them killed"
