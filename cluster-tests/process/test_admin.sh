#!/usr/bin/env bash
# What people ask of a cluster, on three processes: the state of its quorum from every node, also after its leader was killed; voters that go, come
# and come back without their disk.
#   test_admin.sh [DIRECTORY OF THE PROGRAMS]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
name=test_admin
. "$root/cluster-tests/process/cluster_lib.sh"
export STELE_BOOTSTRAP=$peers
# gives CODE TEXT COMMAND...: that exit code, and the text on standard error ("" for none)
gives() {
    local code=$1 text=$2 status=0
    shift 2
    "$@" >"$work/said" 2>"$work/errors" || status=$?
    [ "$status" = "$code" ] || { cat "$work/said" "$work/errors"; die "$* gave $status, not $code"; }
    [ -z "$text" ] || grep -qF -- "$text" "$work/errors" || { cat "$work/errors"; die "$* does not say '$text'"; }
}
# holds EXPRESSION COMMAND...: before long the command is done, and the Python expression holds over its JSON `d`
holds() {
    local expression=$1 deadline=$((SECONDS + 60))
    shift
    until "$@" -o json >"$work/json" 2>"$work/errors" && python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$work/json" "$expression"; do
        [ $SECONDS -lt $deadline ] || { cat "$work/json" "$work/errors"; die "$* -o json: not $expression"; }
    done
}
# json_is EXPRESSION COMMAND...: the command is done, and the expression holds at once
json_is() { "${@:2}" -o json >"$work/json" || die "$* gave $?"; [ "$(of "bool($1)")" = True ] || { cat "$work/json"; die "$*"; }; }
of() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$work/json" "$1"; } # of the last JSON

for k in 1 2 3; do begin $k; done
for k in 1 2 3; do ready $k; done

# The quorum, told by its leader whoever is asked, and by each node for itself.
voters='[m["node"] for m in d["members"] if m["role"] != "observer"] == [1, 2, 3]'
holds "$voters"' and all(m["lag"] == 0 for m in d["members"]) and d["answered_by"] == d["leader"] and d["role"] == "leader"' "$stele" quorum status
leader=$(of 'd["leader"]')
gives 0 "" "$stele" quorum status
grep -qE "^leader +$leader\$" "$work/said" && grep -qE "^ +$leader +leader +[0-9]+ +0 " "$work/said" || { cat "$work/said"; die "quorum status"; }
for k in 1 2 3; do
    holds "$voters"' and d["answered_by"] == '$k' and d["leader"] == '"$leader" "$stele" -b "127.0.0.1:${ports[$((k - 1))]}" quorum status --local
done

# The nodes, told by the controller whoever is asked, and by each as far as it has learned of them.
holds '[(n["node"], n["state"]) for n in d["nodes"]] == [(1, "well"), (2, "well"), (3, "well")] and d["topics"] == 0 and d["controller"] == '"$leader" "$stele" cluster status
gives 0 "" "$stele" cluster status
grep -qE "^controller +$leader\$" "$work/said" && grep -qE '^ +3 +well ' "$work/said" || { cat "$work/said"; die "cluster status"; }
for k in 1 2 3; do
    holds '[n["node"] for n in d["nodes"]] == [1, 2, 3] and d["level"] > 0' "$stele" -b "127.0.0.1:${ports[$((k - 1))]}" cluster status --local
done
gives 1 "a level never goes back" "$stele" cluster level 0
[ "$("$stele" --complete quorum add '' | tr '\n' ' ')" = $'1\tnode 2\tnode 3\tnode ' ] || die "completion of nodes"

# Partitions: they are moved, those who led lead again, and one is left without a leader.
gives 0 "" "$stele" topic create m -p 2 -r 2 --config min.insync.replicas=1
well='all(len(p["isr"]) == 2 and p["leader"] and p["lag"] == [0, 0] for p in d["topics"][0]["partitions"])'
at='d["topics"][0]["partitions"][0]'
holds "$well" "$stele" topic describe m
first=$(of "$at['replicas'][0]") second=$(of "$at['replicas'][1]") third=$(of "6 - sum($at['replicas'])")
seq 1000 | "$stele" produce m -p 0 || die "produce"
was_read() { "$stele" -b "127.0.0.1:${ports[$(($1 - 1))]}" node status --metrics -o json >"$work/json"; of 'next(m["value"] for m in d["metrics"] if m["name"] == "stele_log_read_bytes_total")'; }
before=$(was_read "$second") led=$(was_read "$first") # who reads in the follower's rack reads from the follower
[ "$("$stele" consume m -p 0 --rack "r$second" --to end | wc -l)" = 1000 ] || die "not all was read from the follower"
[ "$(was_read "$second")" -gt "$before" ] && [ "$(was_read "$first")" = "$led" ] || die "node $first was read from, not node $second"
gives 1 "registered" "$stele" partition reassign "m/0=9"
gives 3 "m/9: there is no such partition" "$stele" partition reassign "m/9=1"
gives 3 "not being exchanged" "$stele" partition reassign --cancel m/0
gives 3 "there is no topic" "$stele" partition elect missing
json_is 'd["partitions"][0]["begun"] and d["partitions"][0]["error"] is None' "$stele" partition reassign --wait "m/0=$third,$first"
holds "$well and $at['replicas'] == [$third, $first] and $at['high_watermark'] == 1000" "$stele" topic describe m
json_is 'd == {"partitions": []}' "$stele" partition reassign
# Moved under a throttle, which is gone when it is done; one that somebody else set is not overruled.
gives 2 "goes with --wait" "$stele" partition reassign --throttle 1000000 "m/1=1,2"
gives 2 "no number of bytes" "$stele" partition reassign --wait --throttle fast "m/1=1,2"
gives 0 "" "$stele" config set leader.replication.throttled.rate=5000 --cluster
gives 1 "the cluster has leader.replication.throttled.rate already" "$stele" partition reassign --wait --throttle 1000000 "m/1=1,2"
gives 0 "" "$stele" config unset leader.replication.throttled.rate --cluster
json_is 'd["partitions"][0]["begun"]' "$stele" partition reassign --wait --throttle 1000000 "m/0=$first,$second"
json_is 'd["partitions"][0]["begun"]' "$stele" partition reassign --wait --throttle 1000000 "m/0=$third,$first"
json_is '[s for s in d["settings"] if "throttled" in s["name"]] == []' "$stele" config describe --cluster
json_is '[s["value"] for s in d["settings"] if "throttled" in s["name"]] == ["", ""]' "$stele" config describe --topic m
holds "$well and $at['replicas'] == [$third, $first] and $at['high_watermark'] == 1000" "$stele" topic describe m
gives 0 "" "$stele" partition elect m
holds "$at['leader'] == $third" "$stele" topic describe m
json_is 'd["topics"] == []' "$stele" topic describe --ailing
end "$third" KILL
holds "$at['leader'] == $first and $at['isr'] == [$first]" "$stele" topic describe m
holds "[n['state'] for n in d['nodes'] if n['node'] == $third] == ['fenced'] and d['lagging_partitions'] > 0 and d['leaderless_partitions'] == 0" "$stele" cluster status
begin "$third"; ready "$third"
holds "$well" "$stele" topic describe m
json_is '[(p["topic"], p["partition"], p["leader"]) for p in d["partitions"] if p["elected"]].count(("m", 0, '"$third"')) == 1' "$stele" partition elect --all
holds "$at['leader'] == $third" "$stele" topic describe m
json_is 'not d["partitions"][0]["elected"] and d["partitions"][0]["error"] is None' "$stele" partition elect m/0
end "$first" KILL
holds "$at['isr'] == [$third]" "$stele" topic describe m
seq 10 | "$stele" produce m -p 0 || die "produce to one replica"
end "$third" KILL # the last that has everything
begin "$first"; ready "$first"
holds "$at['leader'] is None and $at['error']" "$stele" topic describe --ailing m
gives 1 "m/0: " "$stele" partition elect m/0
json_is "d['partitions'][0]['leader'] == $first and d['partitions'][0]['elected'] and '$third' in d['partitions'][0]['note']" "$stele" partition elect --unclean m/0
holds "$at['leader'] == $first and $at['high_watermark'] == 1000" "$stele" topic describe m
begin "$third"; ready "$third"
holds "$well and $at['log_end_offset'] == 1000" "$stele" topic describe m
gives 0 "" "$stele" topic delete m

# A node that goes for good, and one that comes.
holds 'd["leader"]' "$stele" quorum status
leader=$(of 'd["leader"]')
gone=$((leader % 3 + 1))
gives 1 "it votes" "$stele" node unregister "$gone"
gives 0 "" "$stele" quorum remove "$gone"
gives 1 "it is alive" "$stele" node unregister "$gone"
end "$gone" TERM
json_is 'd == {"node": '"$gone"', "unregistered": True}' "$stele" node unregister "$gone"
holds "$gone not in [n['node'] for n in d['nodes']]" "$stele" cluster status
gives 3 "no node with that number" "$stele" node unregister "$gone"
begin "$gone"; ready "$gone"
holds "[n['state'] for n in d['nodes']] == ['well'] * 3" "$stele" cluster status
gives 0 "" "$stele" quorum add "$gone"

# Voters: one stops voting and votes again; one that lost its disk is an observer until it is let in.
other=$((leader % 3 + 1))
roles() { echo '[(m["role"], m["lag"]) for m in d["members"] if m["node"] == '"$other"'][:1] == [("'"$1"'", 0)]'; }
json_is 'd == {"node": '$other', "removed": True}' "$stele" quorum remove "$other"
holds "$(roles observer)" "$stele" quorum status
gives 3 "does not vote" "$stele" quorum remove "$other"
gives 0 "" "$stele" quorum add "$other"
holds "$(roles voter)" "$stele" quorum status
gives 4 "votes already" "$stele" quorum add "$other"
end "$other" KILL
rm -rf "$work/data$other"
begin "$other"; ready "$other"
holds '[m["role"] for m in d["members"] if m["node"] == '"$other"'] == ["voter", "observer"]' "$stele" quorum status # the old disk and the new one
deadline=$((SECONDS + 60)) # it has to have caught up first
until "$stele" quorum readmit "$other" -o json >"$work/json" 2>"$work/errors"; do [ $SECONDS -lt $deadline ] || { cat "$work/errors"; die "no readmission"; }; done
[ "$(of 'd["readmitted"]')" = True ] || die "quorum readmit"
holds "$(roles voter)" "$stele" quorum status

# The leader is killed; another one leads.
end "$leader" KILL
holds 'd["leader"] not in (None, '"$leader"') and [m["lag"] == 0 for m in d["members"]].count(True) >= 2' "$stele" quorum status
killed=$leader leader=$(of 'd["leader"]')
last=$((6 - killed - leader))

# Without a majority there is no leader, and the way out is named.
end "$last" KILL
deadline=$((SECONDS + 60)) # the leader gives up when it has heard of nobody for a while
until "$stele" quorum status --local -o json >"$work/json" && [ "$(of 'd["role"]')" != leader ]; do [ $SECONDS -lt $deadline ] || die "it leads alone"; done
gives 1 "--local" "$stele" quorum status
grep -q "a majority" "$work/errors" || die "what is missing"
end "$leader" KILL
begin "$leader" # not ready before there are others
holds "$voters"' and d["answered_by"] == '"$leader"' and d["role"] != "leader"' "$stele" quorum status --local
begin "$killed"; begin "$last"
for k in 1 2 3; do ready $k; done
holds "$voters"' and all(m["lag"] == 0 for m in d["members"] if m["role"] != "observer")' "$stele" quorum status
for k in 1 2 3; do end $k TERM; done
echo "admin: done"
