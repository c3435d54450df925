#!/usr/bin/env bash
# Three data shards under producers and consumers at the same time, with rolls, retention, unlinking, checkpoints and a stop under load:
#   test_shards.sh [DIRECTORY OF THE PROGRAMS]     tools/test.sh runs it on the release and on the thread-sanitizer build.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
bin=${1:-$root/build/bin}
work=$(mktemp -d)
node=
pids=()
stop() { if [ -n "$node" ]; then kill "$1" "$node" 2>/dev/null || true; wait "$node" 2>/dev/null && status=0 || status=$?; node=; fi; }
trap 'stop -KILL; kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
die() { echo "test_shards: $*"; tail -n 20 "$work/steled.log" 2>/dev/null || true; cat "$work"/race* 2>/dev/null || true; exit 1; }
export TSAN_OPTIONS="exitcode=66 log_path=$work/race"
start() {
    rm -f "$work/out"; mkfifo "$work/out"
    "$bin/steled" --data "$work/a,$work/b" --listen 127.0.0.1:0 --set num.network.threads=3 --set log.segment.bytes=500000 \
        --set log.flush.offset.checkpoint.interval.ms=200 --set log.retention.check.interval.ms=300 --set log.segment.delete.delay.ms=100 \
        >"$work/out" 2>>"$work/steled.log" &
    node=$!
    read -r word address <"$work/out" || die "no ready line"
    [ "$word" = ready ] || die "said '$word'"
    export STELE_BOOTSTRAP=$address
}
join() { for pid in "${pids[@]}"; do wait "$pid" || die "a client failed with $?"; done; pids=(); }

seq 1 60000 | awk '{print $1 % 97 "\t" $1 " and some text to make the record longer"}' >"$work/in"
start
"$bin/stele" topic create plain -p 7
"$bin/stele" topic create packed -p 5 --config flush.messages=500
"$bin/stele" topic create synced -p 3 --config flush.before.ack=true
"$bin/stele" topic create short -p 4 --config retention.bytes=600000
for topic in plain plain packed synced short short; do
    codec=none; [ $topic != packed ] || codec=zstd
    "$bin/stele" produce $topic -K $'\t' -l "$work/in" --compression $codec & pids+=($!)
done
for i in 1 2; do "$bin/stele" consume plain --from beginning --to end >"$work/partial.$i" & pids+=($!); done
join
expect() { # TOPIC TIMES: every record is there so many times, in the order of its key
    "$bin/stele" consume "$1" --from beginning --to end -f '%k\t%s\n' >"$work/back"
    [ "$(wc -l <"$work/back")" = $((60000 * $2)) ] || die "$1 holds $(wc -l <"$work/back") records"
    [ "$2" != 1 ] || diff <(sort -s -n -k1,1 "$work/in") <(sort -s -n -k1,1 "$work/back") >/dev/null || die "$1: order or content"
}
expect plain 2; expect packed 1; expect synced 1

# a stop while producers are at it is clean
for i in 1 2 3; do timeout 20 "$bin/stele" produce plain -K $'\t' -l "$work/in" --report "$work/report.$i" >/dev/null 2>&1 & pids+=($!); done
while [ "$( (wc -l <"$work/report.1") 2>/dev/null || echo 0)" -lt 2000 ]; do :; done
stop -TERM
[ "$status" = 0 ] || die "SIGTERM under load gave exit code $status"
kill "${pids[@]}" 2>/dev/null || true; wait "${pids[@]}" 2>/dev/null || true; pids=()
[ -f "$work/a/.kafka_cleanshutdown" ] && [ -f "$work/b/.kafka_cleanshutdown" ] || die "no clean-shutdown marker"
"$bin/stele" dump --verify "$work/a" "$work/b" >"$work/verified" || { cat "$work/verified"; die "verify"; }
start
expect packed 1
"$bin/stele" consume plain --from beginning --to end -f '%p %o\n' >"$work/after"
for i in 1 2 3; do
    awk 'NR == FNR {seen[$0]; next} NF == 3 && !(($2 " " $3) in seen) {print; bad = 1} END {exit bad}' "$work/after" "$work/report.$i" || die "an acknowledged record is lost"
done
stop -TERM
if ls "$work"/race* >/dev/null 2>&1; then cat "$work"/race*; die "data races"; fi
echo "shards: done"
