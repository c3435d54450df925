#!/usr/bin/env bash
# The cluster of compose.yaml as its users meet it: it is built, comes up healthy without a file of a node's own, is reached from this machine by port
# and from other containers by name, stops cleanly on SIGTERM, takes a load with acks=all while each container is killed in turn, and gives all of it
# back, also from new containers. Needs root's rights; installs docker and Compose where they are not, and starts docker where it is not running, for
# itself alone (its images stay in build/docker). Takes about six minutes the first time.
#   [STELE_IMAGE=NAME] deploy/test.sh [COMPOSE...]     that image instead of one that is built; by default `docker compose`, or else `docker-compose`
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
project=steletest$$
work=$(mktemp -d)
daemon=
die() { echo "test: $*"; [ -z "${up:-}" ] || compose logs --tail 20 2>&1 || true; [ -z "${is_lone:-}" ] || docker logs "$project" 2>&1 || true; exit 1; }
finish() {
    touch "$work/enough" # the load ends
    docker rm --force "$project-load" >/dev/null 2>&1 || true
    [ -z "${up:-}" ] || compose down --volumes --timeout 5 >/dev/null 2>&1 || true
    [ -z "${is_lone:-}" ] || { docker rm --force --volumes "$project"; docker volume rm "$project"; } >/dev/null 2>&1 || true
    if [ -n "$daemon" ]; then
        kill "$daemon" 2>/dev/null || true
        wait "$daemon" 2>/dev/null || true
        umount "$work"/exec/netns/* 2>/dev/null || true # it leaves one
    fi
    rm -rf --one-file-system "$work" || true
}
trap finish EXIT

[ "$(id -u)" = 0 ] || { echo "needs root's rights"; exit 77; }
"$root/tools/deps.sh" docker >"$work/log" 2>&1 || { echo "docker cannot be installed"; exit 77; }

# await SECONDS WHAT COMMAND...: until the command succeeds.
await() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@" >"$work/awaited" 2>&1; do
        [ $SECONDS -lt $deadline ] || { cat "$work/awaited"; die "$what"; }
    done
}

if ! docker version >/dev/null 2>&1; then
    mkdir -p "$root/build/docker"
    export DOCKER_HOST=unix://$work/docker.sock
    dockerd --data-root "$root/build/docker" --exec-root "$work/exec" --pidfile "$work/docker.pid" --host "$DOCKER_HOST" >"$work/dockerd" 2>&1 &
    daemon=$!
    answers() { docker version || ! kill -0 "$daemon" 2>/dev/null; }
    await 60 "docker does not answer: $(tail -n 3 "$work/dockerd")" answers
    kill -0 "$daemon" 2>/dev/null || { tail -n 3 "$work/dockerd"; echo "docker cannot be started"; exit 77; }
fi
how=("$@")
[ ${#how[@]} -gt 0 ] || if docker compose version >/dev/null 2>&1; then how=(docker compose); else how=(docker-compose); fi
compose() { "${how[@]}" -p "$project" -f "$here/compose.yaml" "$@"; }

# Three ports that are free: what their numbers begin with.
STELE_PORTS=1784
taken() { for k in 1 2 3; do if (: <"/dev/tcp/127.0.0.1/$STELE_PORTS$k") 2>/dev/null; then return 0; fi; done; return 1; }
while taken; do STELE_PORTS=$((STELE_PORTS + 1)); done
export STELE_PORTS

from=$SECONDS build=()
if [ -z "${STELE_IMAGE:-}" ]; then
    export STELE_IMAGE=stele-test DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-0} # a base that is only here is found by this one
    build=(--build)
    "$here/base-image.sh" >"$work/log" 2>&1 || { tail -n 20 "$work/log"; die "base-image.sh"; }
    docker build -f "$here/Dockerfile" -t "$STELE_IMAGE" "$root" >"$work/log" 2>&1 || { tail -n 40 "$work/log"; die "the image is not built"; }
fi
echo "image: $(docker image inspect --format '{{.Size}}' "$STELE_IMAGE" | awk '{printf "%.1f MB", $1 / 1e6}'), $((SECONDS - from)) s"

health() { docker inspect --format '{{.State.Health.Status}}' "$1"; }
is_healthy() { for name in "$@"; do [ "$(health "$name")" = healthy ] || return 1; done; }
# Stops cleanly in time, which its log says too.
stops() {
    docker stop --time 30 "$1" >/dev/null
    [ "$(docker inspect --format '{{.State.ExitCode}}' "$1")" = 0 ] || die "SIGTERM does not stop $1 cleanly"
    docker logs "$1" 2>&1 | tail -n 3 | grep -q 'stopped cleanly' || die "$1 does not say that it stopped"
}

# A node that is alone keeps its data over a new container, and is reached by its port.
lone() {
    docker run --detach --name "$project" --publish "127.0.0.1:${STELE_PORTS}1:7835" --env STELED_ADVERTISED_LISTENERS="127.0.0.1:${STELE_PORTS}1" \
        --volume "$project:/var/lib/stele" "$STELE_IMAGE" >/dev/null
    await 60 "a node alone is not healthy" is_healthy "$project"
}
alone() { docker run --rm --interactive --network host --env STELE_BOOTSTRAP="127.0.0.1:${STELE_PORTS}1" --entrypoint stele "$STELE_IMAGE" "$@"; }
is_lone=1
mkdir "$work/roots"
docker run --rm --volume "$work/roots:/var/lib/stele" "$STELE_IMAGE" >"$work/log" 2>&1 && die "it serves from a directory that is not its user's"
grep -q 'user 7835, who runs this, may not read and write /var/lib/stele' "$work/log" || { cat "$work/log"; die "why it does not"; }
lone
docker exec "$project" stele topic create greetings >/dev/null
echo ciao | alone produce greetings
stops "$project"
docker rm "$project" >/dev/null
lone
docker exec "$project" stele topic list | grep -q greetings || die "the topic of a node alone is gone"
[ "$(alone consume greetings --from beginning --to end)" = ciao ] || die "the record of a node alone is gone"
stops "$project"
docker rm "$project" >/dev/null
docker volume rm "$project" >/dev/null
is_lone=
echo "alone: healthy, its data outlives the container"

container() { compose ps -q "node$1"; }
# stele by way of the ports of this machine, and by the names in the network of the cluster.
outside=127.0.0.1:${STELE_PORTS}1,127.0.0.1:${STELE_PORTS}2,127.0.0.1:${STELE_PORTS}3
inside=node1:7835,node2:7835,node3:7835
from_here() { docker run --rm --interactive --network host --env STELE_BOOTSTRAP="$outside" --entrypoint stele "$STELE_IMAGE" "$@"; }
from_beside() { docker run --rm --interactive --network "${project}_default" --env STELE_BOOTSTRAP="$inside" --entrypoint stele "$STELE_IMAGE" "$@"; }

from=$SECONDS up=1
compose up "${build[@]}" --detach >"$work/log" 2>&1 || { tail -n 20 "$work/log"; die "compose up"; }
nodes=("" "$(container 1)" "$(container 2)" "$(container 3)")
await 120 "not all are healthy" is_healthy "${nodes[@]:1}"
echo "up: three healthy nodes, $((SECONDS - from)) s"

for k in 1 2 3; do
    [ "$(docker inspect --format '{{.Config.User}}' "${nodes[k]}")" = 7835:7835 ] || die "node $k runs as root"
    docker exec "${nodes[k]}" stele quorum status >"$work/log" 2>&1 || { cat "$work/log"; die "stele does not answer in the container of node $k"; }
done
# One quorum of three, the same from both sides.
for side in here beside; do
    "from_$side" quorum status -o json >"$work/quorum.$side" || die "the cluster is not reached from $side"
    [ "$(grep -oE '"role":\s*"(leader|voter)"' "$work/quorum.$side" | wc -l)" -ge 3 ] || { cat "$work/quorum.$side"; die "not three voters, from $side"; }
done
echo "reached: from this machine at $outside, from beside at $inside"

# A node that is told to stop does so cleanly, and comes back.
stops "${nodes[2]}"
from_here quorum status >"$work/log" 2>&1 || { cat "$work/log"; die "two of three do not go on"; }
docker start "${nodes[2]}" >/dev/null
await 60 "node 2 is not healthy again" is_healthy "${nodes[@]:1}"
echo "stopped cleanly, and back"

# A load with acks=all, a thousand records every tenth of a second, from this machine's side, while each container is killed in turn.
mkdir "$work/load"
chmod 777 "$work/load" # for user 7835
: >"$work/load/report"
chmod 666 "$work/load/report"
from_beside topic create load -p 3 >"$work/log" 2>&1 || { cat "$work/log"; die "no topic is made"; }
in_sync() { from_here topic describe load --ailing -o json >"$work/ailing" && ! grep -q '"partition":' "$work/ailing"; }
await 60 "not all replicas come into sync" in_sync
generate() {
    local line=1
    while [ ! -e "$work/enough" ]; do
        seq -f "%.0f of the lines that are loaded while nodes are killed" "$line" $((line + 999))
        line=$((line + 1000))
        read -r -t 0.1 <>"$work/never" || true
    done
}
mkfifo "$work/never"
generate | docker run --rm --interactive --name "$project-load" --network host --env STELE_BOOTSTRAP="$outside" --volume "$work/load:/load" --entrypoint stele "$STELE_IMAGE" \
    produce load --report /load/report >"$work/produced" 2>&1 &
producer=$!
acked() { wc -l <"$work/load/report"; }
has_acked() { [ "$(acked)" -ge "$1" ]; }
await 60 "nothing is acknowledged" has_acked 1000
for k in 1 2 3; do
    docker kill --signal KILL "${nodes[k]}" >/dev/null
    await 60 "writing does not go on without node $k: $(tail -n 3 "$work/produced")" has_acked $(($(acked) + 10000))
    docker start "${nodes[k]}" >/dev/null
    await 60 "node $k is not healthy again" is_healthy "${nodes[@]:1}"
    await 120 "the replicas of node $k do not come into sync again" in_sync
done
touch "$work/enough"
wait "$producer" || { tail -n 3 "$work/produced"; die "the load does not end well"; }

# What was acknowledged, each line once, is what is there: in order, each where the answer said.
compare() { # SIDE
    "from_$1" consume load --from beginning --to end -f '%p %o %s\n' >"$work/back" || die "the load is not read, from $1"
    awk -v side="$1" '
        NR == FNR {at[$2 " " $3] = $1; count++; next}
        {n++; if (at[$1 " " $2] != $3) {print "partition " $1 " offset " $2 ": line " $3 ", not " at[$1 " " $2]; bad = 1}
         if ($3 <= last[$1]) {print "partition " $1 " offset " $2 ": line " $3 " comes behind line " last[$1]; bad = 1}; last[$1] = $3}
        END {if (n != count) {print n " records for " count " that were acknowledged"; bad = 1}; exit bad}' "$work/load/report" "$work/back" >"$work/log" ||
        { head -n 10 "$work/log"; die "what is read from $1 is not what was written"; }
}
compare here
compare beside
[ "$(cut -d ' ' -f 1 "$work/load/report" | sort -n | uniq | wc -l)" = "$(acked)" ] || die "a line was acknowledged twice"
echo "killed each in turn: $(acked) records acknowledged, all of them there, once and in order"

# All are taken down, and their volumes are enough to come back with everything.
compose down --timeout 30 >"$work/log" 2>&1 || { cat "$work/log"; die "compose down"; }
compose up --detach >"$work/log" 2>&1 || { tail -n 20 "$work/log"; die "compose up, again"; }
nodes=("" "$(container 1)" "$(container 2)" "$(container 3)")
await 120 "not all are healthy in new containers" is_healthy "${nodes[@]:1}"
await 60 "not all replicas are in sync in new containers" in_sync
compare here
echo "down and up again: everything is there"
