# Three processes as a cluster, for the tests of this folder; sourced after `name` and `bin` are set. `work` goes at the end.
stele=$bin/stele
command -v python3 >/dev/null || { echo "needs python3"; exit 77; }
work=$(mktemp -d)
nodes=(0 0 0 0) outs=() started=() # processes: node K at K, and what else a test started
trap 'for one in "${nodes[@]}" "${started[@]}"; do [ "$one" = 0 ] || kill -KILL "$one" 2>/dev/null || true; done; rm -rf "$work"' EXIT
export TSAN_OPTIONS="exitcode=66 log_path=$work/race" # of a build that looks for races: see no_races
die() { echo "$name: $*"; cat "$work"/race* 2>/dev/null || true; tail -n 15 "$work"/log* "$work"/*.errors 2>/dev/null || true; exit 1; }

ports=($(python3 -c 'import socket
held = [socket.socket() for _ in range(3)]
for one in held: one.bind(("127.0.0.1", 0))
print(*[one.getsockname()[1] for one in held])'))
peers=127.0.0.1:${ports[0]},127.0.0.1:${ports[1]},127.0.0.1:${ports[2]}

begin_with() { # K OPTION...
    local k=$1 fd; shift
    rm -f "$work/out$k"; mkfifo "$work/out$k"
    exec {fd}<>"$work/out$k" # a node does not wait for its reader
    outs[k]=$fd
    "$bin/steled" --data "$work/data$k" --listen "127.0.0.1:${ports[$((k - 1))]}" --peers "$peers" "$@" >"$work/out$k" 2>>"$work/log$k" &
    nodes[k]=$!
}
begin() { begin_with "$1" --node "$1" --set "broker.rack=r$1"; } # K
ready() { read -r -t 60 word address <&"${outs[$1]}" && [ "$word" = ready ] || die "node $1 is not ready"; }
end() { # K SIGNAL: who is asked to go, goes without a fault
    local ended=0
    kill "-$2" "${nodes[$1]}"; wait "${nodes[$1]}" 2>/dev/null || ended=$?; nodes[$1]=0
    [ "$2" != TERM ] || [ "$ended" = 0 ] || die "node $1 ended with $ended"
}
# At the end of a test that is run on a build with the thread sanitizer, too: whatever way a node ended, what it found is there.
no_races() { ! ls "$work"/race* >/dev/null 2>&1 || die "data races"; }
